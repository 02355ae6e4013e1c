import io.debezium.embedded.Connect;
import io.debezium.engine.*;
import io.debezium.engine.format.ChangeEventFormat;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.json.JsonConverter;
import io.debezium.transforms.ExtractNewRecordState;
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*; import java.util.concurrent.*;

public class Record {
  static JsonConverter conv(boolean schemas, boolean key) { var c = new JsonConverter(); c.configure(Map.of("schemas.enable", String.valueOf(schemas)), key); return c; }
  static String s(byte[] b) { return b == null ? "null" : new String(b, StandardCharsets.UTF_8); }
  public static void main(String[] a) throws Exception {
    String name = a[0], port = a[1], out = a[2];
    var p = new Properties();
    p.setProperty("name", name); p.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
    p.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
    p.setProperty("database.hostname", "127.0.0.1"); p.setProperty("database.port", port); p.setProperty("database.user", "postgres"); p.setProperty("database.password", "x"); p.setProperty("database.dbname", "shop");
    p.setProperty("topic.prefix", "shop"); p.setProperty("plugin.name", "pgoutput"); p.setProperty("slot.name", name); p.setProperty("publication.name", name); p.setProperty("publication.autocreate.mode", "all_tables");
    p.setProperty("skipped.operations", "none"); p.setProperty("provide.transaction.metadata", "true"); p.setProperty("heartbeat.interval.ms", "700"); p.setProperty("snapshot.mode", "initial");
    p.setProperty("schema.include.list", "inventory,sales"); p.setProperty("slot.drop.on.stop", "true");
    for (int i = 3; i < a.length; i++) { var kv = a[i].split("=", 2); p.setProperty(kv[0], kv[1]); }
    var smt = new ExtractNewRecordState<SourceRecord>();
    smt.configure(new HashMap<>(Map.of("delete.tombstone.handling.mode", "rewrite", "add.fields", "op,table,lsn,schema")));
    var ks = conv(true, true); var kn = conv(false, true); var vs = conv(true, false); var vn = conv(false, false);
    var w = new HashMap<String, PrintWriter>();
    for (var f : List.of("schemas", "plain", "flat", "flat-schemas")) w.put(f, new PrintWriter(new FileWriter(out + "/" + name + "." + f + ".tsv", StandardCharsets.UTF_8)));
    var done = new CountDownLatch(1);
    var engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class)).using(p).notifying(e -> {
      var r = e.record();
      var t = r.topic();
      w.get("schemas").println(t + "\t" + s(ks.fromConnectData(t, r.keySchema(), r.key())) + "\t" + s(vs.fromConnectData(t, r.valueSchema(), r.value())));
      w.get("plain").println(t + "\t" + s(kn.fromConnectData(t, r.keySchema(), r.key())) + "\t" + s(vn.fromConnectData(t, r.valueSchema(), r.value())));
      var f = smt.apply(r);
      if (f != null) {
        w.get("flat").println(t + "\t" + s(kn.fromConnectData(t, f.keySchema(), f.key())) + "\t" + s(vn.fromConnectData(t, f.valueSchema(), f.value())));
        w.get("flat-schemas").println(t + "\t" + s(ks.fromConnectData(t, f.keySchema(), f.key())) + "\t" + s(vs.fromConnectData(t, f.valueSchema(), f.value())));
      }
      w.values().forEach(PrintWriter::flush);
      if (t.endsWith(".message")) done.countDown();
    }).using((ok, msg, err) -> { System.err.println("END " + ok + " " + msg); if (err != null) err.printStackTrace(); done.countDown(); }).build();
    var x = Executors.newSingleThreadExecutor(); x.execute(engine);
    done.await(300, TimeUnit.SECONDS); Thread.sleep(300);
    engine.close(); x.shutdown(); x.awaitTermination(20, TimeUnit.SECONDS); System.exit(0);
  }
}
