-- All rows seem to be new.
--   {"id":1,"v":2,"a":"x"}
SELECT 1 / ((SELECT max(value) FROM public.weir_meta WHERE name = 'versions "public"."t"') IS NOT DISTINCT FROM NULL)::integer;
COPY public.weir_versions (tbl, key, state) FROM STDIN;
DELETE FROM public.weir_versions WHERE tbl = '"public"."t"' AND gone < now() - interval '3600 seconds';
INSERT INTO public.weir_meta (name, value) VALUES ('versions "public"."t"', '["id","v","a"]') ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COPY "public"."t" ("id", "v", "a") FROM STDIN;
