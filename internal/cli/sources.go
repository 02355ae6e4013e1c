package cli

import "github.com/weirsync/weir/internal/settings"

// kindsWith returns the supported kinds of sources with their options.
var kindsWith = settings.Kinds

// sourceKinds are the kinds without options. They only classify sources.
var sourceKinds = kindsWith(&settings.KindOptions{})
