package memory

import (
	"testing"
	"testing/fstest"
)

// TestAvailable_LowestLimit: the lowest limit of a process's groups, their parents, and the machine.
func TestAvailable_LowestLimit(t *testing.T) {
	const meminfo = "MemTotal:       16000000 kB\nMemFree: 1 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		bytes int64
		from  string
	}{
		"no groups":                     {nil, 16000000 << 10, "the machine's memory"},
		"version 2":                     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 1 << 30, "the control group's memory.max"},
		"a group above":                 {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "536870912\n"}, 512 << 20, "the control group's memory.max"},
		"memory.high":                   {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.high": "1000\n"}, 1000, "the control group's memory.high"},
		"in a container":                {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20, "the control group's memory.max"},
		"version 1":                     {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/x\n4:memory:/docker/1\n", "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "2147483648\n"}, 2 << 30, "the control group's memory.limit_in_bytes"},
		"version 1 in a container":      {map[string]string{"proc/self/cgroup": "4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n"}, 2 << 30, "the control group's memory.limit_in_bytes"},
		"version 1, no limit":           {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16000000 << 10, "the machine's memory"},
		"a limit over the machine's":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "99999999999999\n"}, 16000000 << 10, "the machine's memory"},
		"what is no number is no limit": {map[string]string{"proc/self/cgroup": "garbage\n0::/\n", "sys/fs/cgroup/memory.max": "much\n"}, 16000000 << 10, "the machine's memory"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			l := available(root)
			if l.From == "" {
				t.Skip("the machine's memory is not in a file on this system")
			}
			if l != (Limit{test.bytes, test.from}) {
				t.Errorf("%d, %s; want %d, %s", l.Bytes, l.From, test.bytes, test.from)
			}
		})
	}
}

func TestLimit_Buffer(t *testing.T) {
	for _, test := range []struct {
		limit Limit
		want  Buffer
	}{
		{Limit{4 << 30, "GOMEMLIMIT"}, Buffer{1 << 30, "a quarter of 4.0 GiB, GOMEMLIMIT"}},
		{Limit{999 << 20, "x"}, Buffer{249 << 20, "a quarter of 999.0 MiB, x"}},
		{Limit{200 << 20, "x"}, Buffer{64 << 20, "64 MiB at least; a quarter of 200.0 MiB, x, is less"}},
		{Limit{64 << 30, "x"}, Buffer{2 << 30, "2 GiB at most; a quarter of 64.0 GiB, x, is more"}},
		{Limit{}, Buffer{64 << 20, "64 MiB at least; the system does not say how much memory there is"}},
	} {
		if got := test.limit.Buffer(); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.limit, got, test.want)
		}
	}
}
