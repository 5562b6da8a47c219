import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's own REST catalog, as Iceberg's tests run it, on 127.0.0.1.
 *
 * Arguments: the port, and the properties of the catalog that keeps the tables, as `name=value`.
 */
public class RestCatalog {
    public static void main(String[] arguments) throws Exception {
        var properties = new HashMap<String, String>();
        for (int i = 1; i < arguments.length; i++) {
            String[] property = arguments[i].split("=", 2);
            properties.put(property[0], property[1]);
        }
        var catalog = CatalogUtil.buildIcebergCatalog("kept", properties, null);
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        int port = Integer.parseInt(arguments[0]);
        var server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
