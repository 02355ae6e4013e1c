#include "textflag.h"

// func cpuPrefetch(p unsafe.Pointer)
TEXT ·cpuPrefetch(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
