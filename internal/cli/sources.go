package cli

import "github.com/weirsync/weir/internal/spec"

// kindsWith are the kinds of sources that weir reads, by their options.
var kindsWith = spec.Kinds

// sourceKinds are the kinds without options. They only classify sources.
var sourceKinds = kindsWith(&spec.KindOptions{})
