package cli

import (
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/kafka"
	"github.com/weirsync/weir/internal/source/tcp"
)

// kindOptions are the options that single kinds of sources have.
type kindOptions struct {
	file  file.Options
	tcp   tcp.Options
	kafka kafka.Options
}

// kindsWith are the kinds of sources that weir reads, by their options. The first one has paths and stdin.
var kindsWith = func(o *kindOptions) source.Kinds {
	return source.Kinds{file.Kind(o.file), tcp.Dialed(o.tcp), tcp.Listening(o.tcp), kafka.Kind(o.kafka)}
}

// sourceKinds are the same without options: they tell kinds apart, and what their sources are like.
var sourceKinds = kindsWith(&kindOptions{})
