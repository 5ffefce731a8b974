// Mover moves one image between an OCI layout and a registry, with crane's library or oras-go's:
//
//	mover crane|oras push LAYOUT HOST/NAME:TAG
//	mover crane|oras pull LAYOUT HOST/NAME:TAG
//
// The bench measures rye beside it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want crane|oras push|pull LAYOUT HOST/NAME:TAG, got %q", args)
	}
	dir, ref := args[2], args[3]
	switch args[0] + " " + args[1] {
	case "crane push":
		return cranePush(dir, ref)
	case "crane pull":
		image, err := crane.Pull(ref)
		if err != nil {
			return err
		}
		to, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		return to.AppendImage(image)
	case "oras push", "oras pull":
		return orasCopy(ctx, args[1] == "push", dir, ref)
	}
	return fmt.Errorf("invalid command %q", args)
}

// cranePush pushes the image that the layout has under the tag of ref.
func cranePush(dir, ref string) error {
	from, err := layout.FromPath(dir)
	if err != nil {
		return err
	}
	index, err := from.ImageIndex()
	if err != nil {
		return err
	}
	all, err := index.IndexManifest()
	if err != nil {
		return err
	}
	_, tag := cut(ref)
	for _, d := range all.Manifests {
		if d.Annotations[ocispec.AnnotationRefName] != tag {
			continue
		}
		image, err := from.Image(d.Digest)
		if err != nil {
			return err
		}
		return crane.Push(image, ref)
	}
	return fmt.Errorf("%s has no %q", dir, tag)
}

func orasCopy(ctx context.Context, push bool, dir, ref string) error {
	at, err := oci.New(dir)
	if err != nil {
		return err
	}
	name, tag := cut(ref)
	repository, err := remote.NewRepository(name)
	if err != nil {
		return err
	}
	repository.PlainHTTP = true
	from, to := oras.ReadOnlyTarget(repository), oras.Target(at)
	if push {
		from, to = at, repository
	}
	_, err = oras.Copy(ctx, from, tag, to, tag, oras.DefaultCopyOptions)
	return err
}

// cut divides a reference before its tag.
func cut(ref string) (name, tag string) {
	i := strings.LastIndex(ref, ":")
	return ref[:i], ref[i+1:]
}
