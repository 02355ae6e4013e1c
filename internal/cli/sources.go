package cli

import "github.com/weirsync/weir/internal/spec"

// kindsWith returns the supported kinds of sources with their options.
var kindsWith = spec.Kinds

// sourceKinds are the kinds without options. They only classify sources.
var sourceKinds = kindsWith(&spec.KindOptions{})
