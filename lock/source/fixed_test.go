package source

import (
	"testing"

	"github.com/rye-build/rye/lock/project"
)

// TestFixed says which sources can follow a range: those that don't name one version.
func TestFixed(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for where, want := range map[string]struct {
		fixed  bool
		follow string
	}{
		"oci://r.example/acme/deploy":                         {false, "oci://r.example/acme/deploy"},
		"oci://r.example/acme/deploy:stable":                  {false, "oci://r.example/acme/deploy"},
		"oci://r.example/acme/deploy:v1.4.0":                  {false, "oci://r.example/acme/deploy"},
		"oci://r.example/acme/deploy:1.4.0":                   {true, "oci://r.example/acme/deploy"},
		"oci://r.example/acme/deploy:1.4.0_build.5":           {true, "oci://r.example/acme/deploy"},
		"oci-layout:../stick:1.4.0":                           {true, "oci-layout:../stick"},
		"git+https://g.example/deploy.git":                    {false, ""},
		"git+https://g.example/deploy.git@main":               {false, ""},
		"git+https://g.example/deploy.git@v1":                 {false, ""},
		"git+https://g.example/deploy.git@v1.4.0":             {true, ""},
		"git+https://g.example/deploy.git@refs/tags/x/1.4.0":  {true, ""},
		"git+https://g.example/all.git?dir=deploy@" + commit:  {true, ""},
		"https://acme.example/acme-deploy-1.4.0.tar.zst":      {true, ""},
		"https://acme.example/acme-deploy-1.4.0-rc.1.tar.zst": {true, ""},
		"https://acme.example/acme-deploy-latest.tar.zst":     {false, ""},
		"https://acme.example/acme-deploy-1.4.tar.zst":        {false, ""},
		"../deploy-1.4.0.rye":                                 {true, ""},
		"../deploy":                                           {false, ""},
		"..":                                                  {false, ""},
	} {
		src, err := project.ParseSource(where, false)
		if err != nil {
			t.Fatal(err)
		}
		if fixed, follow := Fixed(src); fixed != want.fixed || follow != want.follow {
			t.Errorf("%s: %t, %q", where, fixed, follow)
		}
	}
	if fixed, _ := Fixed(project.Source{Index: true, Where: "../dist-1.4.0"}); fixed {
		t.Error("an index lists many versions")
	}
}
