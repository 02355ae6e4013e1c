package mapping

import (
	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/paths"
)

// What a mapping is made of is said by other packages; these are its names here, for those who write one.
type (
	Path     = paths.Path
	Base     = paths.Base
	Step     = paths.Step
	When     = paths.When
	All      = paths.All
	Test     = paths.Test
	Value    = paths.Value
	Pos      = paths.Pos
	Type     = cast.Type
	TypeKind = cast.TypeKind
	Envelope = envelope.Envelope
)

// See the package of each.
const (
	NoBase      = paths.NoBase
	RowBase     = paths.RowBase
	MessageBase = paths.MessageBase
	ParentBase  = paths.ParentBase

	AnyPresence   = paths.AnyPresence
	MustBePresent = paths.MustBePresent
	MustBeAbsent  = paths.MustBeAbsent

	DefaultType  = cast.DefaultType
	Auto         = cast.Auto
	Text         = cast.Text
	Integer      = cast.Integer
	Real         = cast.Real
	Numeric      = cast.Numeric
	Base64Number = cast.Base64Number
	Boolean      = cast.Boolean
	JSON         = cast.JSON
	JSONText     = cast.JSONText
	Timestamp    = cast.Timestamp
	TimestampUTC = cast.TimestampUTC
	TimestampMs  = cast.TimestampMs
	TimestampUs  = cast.TimestampUs
	TimestampNs  = cast.TimestampNs
	Date         = cast.Date
	DateDays     = cast.DateDays
	TimeMs       = cast.TimeMs
	TimeUs       = cast.TimeUs
	TimeNs       = cast.TimeNs
	UUID         = cast.UUID
	Bytes        = cast.Bytes

	NoCast = envelope.NoCast
)

// FieldPath, ParsePath, ParseWhen and the others are those of the packages that say what they read.
var (
	FieldPath        = paths.FieldPath
	ParsePath        = paths.ParsePath
	ParseWhen        = paths.ParseWhen
	CutCondition     = paths.CutCondition
	ParseType        = cast.ParseType
	TypeNames        = cast.TypeNames
	ParseVersionPart = envelope.ParseVersionPart
)

// UnknownTypeError is [cast.UnknownTypeError].
type UnknownTypeError = cast.UnknownTypeError

// EnvelopeVersion is the path of the version that a message's envelope has.
var EnvelopeVersion = Path{Base: paths.VersionBase, Text: "the envelope's version"}
