# The ways to work on rye. Each is one line, so that it can be typed as well.

# Arguments reach the commands as "$@", so that a pattern with spaces or bars stays one argument.
set positional-arguments

# list them
default:
    @just --list

# build rye for this machine
build:
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o rye ./cmd/rye

# run all tests that need nothing but Go
test *ARGS:
    go test ./... "$@"

# format, vet, staticcheck
lint:
    .ci/run lint

# all fuzzers, five seconds each
fuzz:
    .ci/run fuzz

# tests with the race detector, and what they cover
cover:
    .ci/run coverage race

# tests against other programs (installs them)
peers:
    .ci/run peers

# the store, items, bundles, locks and execution beside other tools on the same work
bench *ARGS:
    CGO_ENABLED=0 go run ./testdata/bench "$@"

# Go benchmarks, for benchstat
gobench PACKAGES="./cas/..." *ARGS:
    go test -run '^$' -bench . -benchmem {{PACKAGES}} {{ARGS}}

# the main job, end to end: sign, lock, run, refuse
demo:
    go run ./cmd/rye demo

# what a release consists of, signed by RYE_KEY or --key NAME, in dist/; --compare builds it twice
release *ARGS:
    go run ./testdata/release "$@"

# plant known faults and show which ones the tests miss
mutants *PACKAGES:
    go run ./testdata/mutants "$@"

# a registry as a large team uses it: three processes, PostgreSQL, S3, a browser, a thousand clients (minutes)
registry *ARGS:
    cd testdata/peers && go run ./registry "$@"

# everything CI runs
ci:
    .ci/run
