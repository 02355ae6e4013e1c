#include "textflag.h"

// func cpuPrefetch(p unsafe.Pointer)
TEXT ·cpuPrefetch(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET
