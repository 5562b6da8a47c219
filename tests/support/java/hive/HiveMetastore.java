import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * The service of Hive's metastore, on 127.0.0.1. Its database is Derby's, in memory.
 *
 * Arguments: the port, and settings as `name=value`. `HiveMetaStore` itself would serve all network interfaces.
 */
public class HiveMetastore {
    public static void main(String[] arguments) throws Exception {
        var conf = new HiveConf();
        conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true");
        conf.set("hive.metastore.schema.verification", "false");
        conf.set("datanucleus.schema.autoCreateAll", "true");
        conf.set("datanucleus.connectionPoolingType", "HikariCP");  // Spark lacks the default one
        for (int i = 1; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            conf.set(setting[0], setting[1]);
        }
        TxnDbUtil.setConfValues(conf);
        TxnDbUtil.prepDb(conf);  // the tables of locks, which `autoCreateAll` does not create
        var handler = HiveMetaStore.newRetryingHMSHandler("metastore", conf, true);
        var socket = new TServerSocket(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0])));
        new TThreadPoolServer(
            new TThreadPoolServer.Args(socket).processor(new TSetIpAddressProcessor<>(handler))).serve();
    }
}
