package cli

import "github.com/weirsync/weir/internal/spec"

// kindsWith are the kinds of sources that weir reads, by their options.
var kindsWith = spec.Kinds

// sourceKinds are the same without options: they tell kinds apart, and what their sources are like.
var sourceKinds = kindsWith(&spec.KindOptions{})
