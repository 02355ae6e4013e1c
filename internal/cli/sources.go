package cli

import (
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/kafka"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/spec"
)

// kindsWith are the kinds of sources that weir reads, by their options. The first one has paths and stdin.
var kindsWith = func(o *spec.KindOptions) source.Kinds {
	return source.Kinds{file.Kind(o.File), tcp.Dialed(o.TCP), tcp.Listening(o.TCP), kafka.Kind(o.Kafka)}
}

// sourceKinds are the kinds without options. They only classify sources.
var sourceKinds = kindsWith(&spec.KindOptions{})
