package testmirror

var words = []string{"''", "'a'", "'Ünïcode 日本 🙂'", "'it''s \"quoted\"'", "'x RANDOM'", "NULL", "'line\nbreak\ttab'", "'trailing  '"}

// shop is the content of the Postgres source: values of all types that are mirrored unchanged.
func shop() []*table {
	return []*table{
		{name: "kinds", key: 1, mark: "200000N", columns: []column{
			{name: "id", kind: "bigint", values: append(numbers(-9, 9), "9223372036854775807", "-9223372036854775808")},
			{name: "small", kind: "smallint", values: []string{"0", "-32768", "32767", "NULL"}},
			{name: "num", kind: "numeric(12,2)", values: []string{"0", "-1.50", "9999999999.99", "NULL", "RANDOM.25"}},
			{name: "free", kind: "numeric", values: []string{"0", "1e-20", "-123456789012345678901234567890.0123456789", "NULL", "RANDOM"}},
			{name: "r", kind: "real", values: []string{"0", "0.1", "-3.4028235e38", "1e-45", "NULL"}, mirror: "r::real"},
			{name: "d", kind: "double precision", values: []string{"0", "0.1", "1.7976931348623157e308", "5e-324", "NULL", "RANDOM.5"}},
			{name: "ok", kind: "boolean", values: []string{"true", "false", "NULL"}},
			{name: "code", kind: "varchar(20)", values: words},
			{name: "fixed", kind: "char(5)", values: []string{"'abc'", "''", "NULL"}, source: "rpad(fixed, 5)"},
			{name: "raw", kind: "bytea", values: []string{`'\x'`, `'\x00ff0a'`, `'\xdeadbeef'`, "NULL"}},
			{name: "born", kind: "date", values: []string{"'1970-01-01'", "'1700-03-01'", "'2024-02-29'", "'9999-12-31'", "NULL"}},
			{name: "clock", kind: "time", values: []string{"'00:00:00'", "'13:30:00.5'", "'23:59:59.999999'", "NULL"}},
			{name: "clockz", kind: "timetz", values: []string{"'12:00:00+02'", "'23:59:59.999999-05'", "NULL"}, source: "(clockz AT TIME ZONE 'UTC')", mirror: "clockz::timetz"},
			{name: "local", kind: "timestamp", values: []string{"'1970-01-01'", "'2024-02-29 23:59:59.999999'", "'9999-12-31 23:59:59.999999'", "NULL"}, mirror: "local AT TIME ZONE 'UTC'"},
			{name: "moment", kind: "timestamptz", values: []string{"'1970-01-01 00:00:00+00'", "'2024-02-29 23:59:59.999999+05:30'", "'1700-03-01 00:00:00+00'", "NULL"}},
			{name: "took", kind: "interval", values: []string{"'0'", "'1 mon -2 days 03:04:05.000006'", "'-100 years'", "NULL"}, mirror: "took::interval"},
			{name: "uid", kind: "uuid", values: []string{"'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426614174000'", "NULL"}},
			{name: "doc", kind: "json", values: []string{`'{"b": 1, "a": [1, null, "x"]}'`, `'"text"'`, "'17'", "NULL"}, source: "doc::jsonb"},
			{name: "docb", kind: "jsonb", values: []string{`'{"b": 1.50, "a": {"c": "\u00e9"}}'`, "'[]'", "'true'", "NULL"}},
			{name: "ip", kind: "inet", values: []string{"'127.0.0.1'", "'2001:db8::1/64'", "NULL"}, mirror: "ip::inet"},
			{name: "net", kind: "cidr", values: []string{"'10.0.0.0/8'", "NULL"}},
			{name: "mac", kind: "macaddr", values: []string{"'08:00:2b:01:02:03'", "NULL"}},
			{name: "bits", kind: "bit(8)", values: []string{"B'00000000'", "B'10000001'", "NULL"}, source: `'\x' || lpad(to_hex(bits::int), 2, '0')`},
			{name: "mood", kind: "mood", values: []string{"'happy'", "'so so'", "NULL"}},
			{name: "ints", kind: "int[]", values: []string{"'{}'", "'{1,NULL,-3}'", "NULL"}, source: "to_jsonb(ints)"},
			{name: "texts", kind: "text[]", values: []string{"'{}'", `'{"a b",NULL,"\"q\""}'`, "NULL"}, source: "to_jsonb(texts)"},
			{name: "page", kind: "xml", values: []string{"'<a>b</a>'", "NULL"}},
			{name: "cash", kind: "money", values: []string{"'0'", "'-12.34'", "NULL"}, source: "cash::numeric", mirror: "cash::numeric(20,2)"},
			{name: "span", kind: "int4range", values: []string{"'[1,5)'", "'empty'", "NULL"}},
		}},
		{name: "customers", key: 1, mark: "'markN'", columns: []column{
			{name: "id", kind: "text", values: []string{"'a'", "'b'", "'ü'", "'日本'", "'A'", "' '", "'x/y'", "'1'", "'01'"}},
			{name: "name", kind: "text", values: words},
			{name: "balance", kind: "numeric(12,2)", values: []string{"0", "-0.05", "RANDOM.10", "NULL"}},
		}},
		{name: "orders", key: 1, mark: "200000N", columns: []column{
			{name: "id", kind: "bigint", values: numbers(1, 20)},
			{name: "customer", kind: "text", values: []string{"(SELECT id FROM customers ORDER BY md5(concat(id, 'RANDOM')) LIMIT 1)", "NULL"}},
			{name: "note", kind: "text", values: words},
		}, more: ", FOREIGN KEY (customer) REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE"},
		{name: "order_lines", key: 2, mark: "200000N, N", columns: []column{
			{name: "order_id", kind: "bigint", values: []string{"(SELECT id FROM orders ORDER BY md5(concat(id, 'RANDOM')) LIMIT 1)"}},
			{name: "line_no", kind: "integer", values: numbers(1, 3)},
			{name: "sku", kind: "text", values: words},
			{name: "qty", kind: "integer", values: numbers(0, 9)},
		}, more: ", FOREIGN KEY (order_id) REFERENCES orders ON DELETE CASCADE ON UPDATE CASCADE"},
		{name: "documents", key: 2, mark: "'00000000-0000-0000-0000-00000000001N', N", columns: []column{
			{name: "id", kind: "uuid", values: []string{"'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'", "'00000000-0000-0000-0000-000000000003'"}},
			{name: "page", kind: "smallint", values: numbers(1, 3)},
			{name: "title", kind: "text", values: words},
			{name: "body", kind: "text", values: []string{"(SELECT string_agg(md5(concat(i, 'RANDOM')), '') FROM generate_series(1, 200) i)", "'short'", "NULL"}},
		}},
		{name: "log", mark: "'markN'", columns: []column{
			{name: "what", kind: "text", values: []string{"'event RANDOM'", "NULL"}},
			{name: "happened", kind: "timestamptz", values: []string{"now()"}},
		}},
	}
}

// shopOdd has a row for each unusual value: the row's name, a column, the value.
func shopOdd() (*table, [][3]string) {
	return &table{name: "odd", key: 1, mark: "'markN'", columns: []column{
			{name: "name", kind: "text"}, {name: "touched", kind: "integer DEFAULT 0"}, {name: "moment", kind: "timestamptz"}, {name: "local", kind: "timestamp", mirror: "local AT TIME ZONE 'UTC'"},
			{name: "born", kind: "date"}, {name: "clock", kind: "time"}, {name: "d", kind: "double precision"}, {name: "r", kind: "real", mirror: "r::real"}, {name: "doc", kind: "jsonb"}, {name: "nums", kind: "numeric[]", source: "to_jsonb(nums)"},
			{name: "days", kind: "date[]", source: "to_jsonb(days)"}, {name: "moments", kind: "timestamptz[]", source: "to_jsonb(moments)", mirror: `regexp_replace(moments::text, '(\.0+)?Z"', '+00:00"')`}, {name: "raws", kind: "bytea[]", source: "to_jsonb(raws)"},
			{name: "spot", kind: "point"}, {name: "body", kind: "text"},
		}}, [][3]string{
			{"moment infinity", "moment", "'infinity'"},
			{"moment -infinity", "moment", "'-infinity'"},
			{"moment beyond 9999", "moment", "'12345-01-01 00:00:00+00'"},
			{"moment early", "moment", "'0001-01-01 00:00:00+00'"},
			{"local early", "local", "'1582-10-04 00:00:00'"},
			{"born early", "born", "'0001-01-01'"},
			{"moment before Christ", "moment", "'0044-03-15 00:00:00+00 BC'"},
			{"local infinity", "local", "'infinity'"},
			{"born infinity", "born", "'infinity'"},
			{"born beyond 9999", "born", "'12345-01-01'"},
			{"born before Christ", "born", "'0044-03-15 BC'"},
			{"clock 24", "clock", "'24:00:00'"},
			{"d NaN", "d", "'NaN'"},
			{"d infinity", "d", "'infinity'"},
			{"d -0", "d", "'-0'"},
			{"r infinity", "r", "'-infinity'"},
			{"doc null", "doc", "'null'"},
			{"nums", "nums", "'{1.5,NULL,-2.25}'"},
			{"days", "days", "'{2024-02-29,NULL}'"},
			{"moments", "moments", "'{2024-02-29 12:00:00+00}'"},
			{"raws", "raws", `'{"\\x00ff"}'`},
			{"spot", "spot", "'(1.5,-2)'"},
			{"", "touched", "0"},
			{"to move", "body", "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i)"},
		}
}

// depotOdd is the same for MariaDB.
func depotOdd() (*table, [][3]string) {
	return &table{name: "odd", key: 1, mark: "'markN'", columns: []column{
			{name: "name", kind: "varchar(40) COLLATE utf8mb4_bin"}, {name: "touched", kind: "integer DEFAULT 0"}, {name: "clock", kind: "time(6)", source: "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM clock))"}, {name: "born", kind: "date"},
			{name: "local", kind: "datetime", mirror: "local AT TIME ZONE 'UTC'"}, {name: "y", kind: "year"}, {name: "spot", kind: "point", source: "ST_AsText(spot)"}, {name: "doc", kind: "json"},
			{name: "latin", kind: "varchar(20) CHARACTER SET latin1"}, {name: "uid", kind: "uuid"},
		}}, [][3]string{
			{"clock beyond a day", "clock", "'838:59:59'"},
			{"clock below 0", "clock", "'-12:30:00.5'"},
			{"born early", "born", "'1000-01-01'"},
			{"born zero", "born", "'0000-00-00'"},
			{"local zero", "local", "'0000-00-00 00:00:00'"},
			{"local early", "local", "'0044-03-15 00:00:00'"},
			{"y zero", "y", "0"},
			{"spot", "spot", "ST_PointFromText('POINT(1.5 -2)')"},
			{"doc null", "doc", "'null'"},
			{"latin", "latin", "'Ünïcode'"},
			{"uid", "uid", "'123e4567-e89b-12d3-a456-426614174000'"},
			{"", "touched", "0"},
		}
}

// depot is the content of the MariaDB source.
func depot() []*table {
	hexed := func(name string) string { return "HEX(" + name + ")" }
	unhexed := func(name string) string { return "upper(encode(" + name + ", 'hex'))" }
	return []*table{
		{name: "kinds", key: 1, mark: "200000N", columns: []column{
			{name: "id", kind: "bigint unsigned", values: append(numbers(1, 18), "18446744073709551615", "9223372036854775808")},
			{name: "tiny", kind: "tinyint", values: []string{"-128", "127", "NULL"}},
			{name: "utiny", kind: "tinyint unsigned", values: []string{"0", "255", "NULL"}},
			{name: "medium", kind: "mediumint", values: []string{"-8388608", "8388607", "NULL"}},
			{name: "uint", kind: "int unsigned", values: []string{"0", "4294967295", "NULL"}},
			{name: "ubig", kind: "bigint unsigned", values: []string{"0", "18446744073709551615", "NULL"}},
			{name: "num", kind: "decimal(12,2)", values: []string{"0", "-1.50", "9999999999.99", "NULL", "RANDOM.25"}},
			{name: "wide", kind: "decimal(40,10)", values: []string{"-123456789012345678901234567890.0123456789", "NULL"}},
			{name: "r", kind: "float", values: []string{"0", "1.5", "-0.25", "NULL"}},
			{name: "d", kind: "double", values: []string{"0", "0.1", "-1.5", "NULL", "RANDOM.5"}},
			{name: "yes", kind: "boolean", values: []string{"0", "1", "NULL"}},
			{name: "bit1", kind: "bit(1)", values: []string{"b'0'", "b'1'", "NULL"}, source: "bit1 + 0", mirror: "bit1::int"},
			{name: "bits", kind: "bit(5)", values: []string{"b'0'", "b'10001'", "NULL"}, source: `concat('\\x', lower(lpad(hex(bits), 2, '0')))`},
			{name: "fixed", kind: "char(5)", values: []string{"'abc'", "''", "NULL"}},
			{name: "v", kind: "varchar(50)", values: words},
			{name: "big", kind: "mediumtext", values: append(words, "repeat('lorem ipsum RANDOM ', 1000)")},
			{name: "bin", kind: "binary(3)", values: []string{"x'00ff0a'", "x'010203'", "NULL"}, source: hexed("bin"), mirror: unhexed("bin")},
			{name: "raw", kind: "varbinary(10)", values: []string{"''", "x'deadbeef'", "x'00'", "NULL"}, source: hexed("raw"), mirror: unhexed("raw")},
			{name: "file", kind: "blob", values: []string{"''", "x'00ff'", "NULL"}, source: hexed("file"), mirror: unhexed("file")},
			{name: "born", kind: "date", values: []string{"'1970-01-01'", "'1700-03-01'", "'2024-02-29'", "'9999-12-31'", "NULL"}},
			{name: "clock", kind: "time(6)", values: []string{"'00:00:00'", "'13:30:00.5'", "'23:59:59.999999'", "NULL"}, mirror: "to_char(clock::time, 'HH24:MI:SS.US')"},
			{name: "local", kind: "datetime(6)", values: []string{"'1970-01-01'", "'2024-02-29 23:59:59.999999'", "'9999-12-31 23:59:59.999999'", "NULL"}, mirror: "to_char(local AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"},
			{name: "moment", kind: "timestamp(6) NULL", values: []string{"'1970-01-01 00:00:01'", "'2024-02-29 23:59:59.999999'", "NULL"}, mirror: "to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"},
			{name: "y", kind: "year", values: []string{"1901", "2155", "NULL"}},
			{name: "mood", kind: "enum('happy','so so')", values: []string{"'happy'", "'so so'", "NULL"}},
			{name: "tags", kind: "set('a','b','c')", values: []string{"''", "'a'", "'a,c'", "NULL"}},
			{name: "doc", kind: "json", values: []string{`'{"b":1,"a":[1,null,"x"]}'`, `'[]'`, "NULL"}},
		}},
		{name: "customers", key: 1, mark: "'markN'", columns: []column{
			{name: "id", kind: "varchar(20) COLLATE utf8mb4_bin", values: []string{"'a'", "'b'", "'ü'", "'日本'", "'A'", "'x/y'", "'1'", "'01'"}},
			{name: "name", kind: "text", values: words},
			{name: "balance", kind: "decimal(12,2)", values: []string{"0", "-0.05", "RANDOM.10", "NULL"}},
		}},
		{name: "orders", key: 1, mark: "200000N", columns: []column{
			{name: "id", kind: "bigint", values: numbers(1, 20)},
			{name: "customer", kind: "varchar(20) COLLATE utf8mb4_bin", values: []string{"(SELECT id FROM customers ORDER BY md5(concat(id, 'RANDOM')) LIMIT 1)", "NULL"}},
			{name: "note", kind: "text", values: words},
		}, more: ", FOREIGN KEY (customer) REFERENCES customers (id)"},
		{name: "order_lines", key: 2, mark: "200000N, N", columns: []column{
			{name: "order_id", kind: "bigint", values: []string{"(SELECT id FROM orders ORDER BY md5(concat(id, 'RANDOM')) LIMIT 1)"}},
			{name: "line_no", kind: "integer", values: numbers(1, 3)},
			{name: "sku", kind: "text", values: words},
			{name: "qty", kind: "integer", values: numbers(0, 9)},
		}, more: ", FOREIGN KEY (order_id) REFERENCES orders (id)"},
		{name: "stock", key: 3, mark: "'markN', '2027-01-01', N", columns: []column{
			{name: "place", kind: "varchar(10) COLLATE utf8mb4_bin", values: []string{"'Oslo'", "'Łódź'"}},
			{name: "day", kind: "date", values: []string{"'2026-01-01'", "'2026-01-02'"}},
			{name: "shelf", kind: "smallint unsigned", values: numbers(1, 3)},
			{name: "pieces", kind: "integer", values: numbers(0, 9)},
		}},
		{name: "log", mark: "'markN'", columns: []column{
			{name: "what", kind: "text", values: []string{"'event RANDOM'", "NULL"}},
			{name: "happened", kind: "datetime(6)", values: []string{"now(6)"}, mirror: "to_char(happened AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"},
		}},
	}
}
