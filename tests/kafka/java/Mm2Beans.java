import com.sun.tools.attach.VirtualMachine;
import java.util.ArrayList;
import java.util.List;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * The metrics that a running MirrorMaker 2 has in JMX: one line of tab-separated fields for each, its domain, its
 * attribute, then the properties of its name in their order. Argument: the process.
 */
public class Mm2Beans {
    public static void main(String[] args) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName bean : server.queryNames(new ObjectName("kafka.connect*:*"), null)) {
                for (MBeanAttributeInfo one : server.getMBeanInfo(bean).getAttributes()) {
                    List<String> fields = new ArrayList<>(List.of(bean.getDomain(), one.getName()));
                    fields.addAll(List.of(bean.getKeyPropertyListString().split(",")));
                    System.out.println(String.join("\t", fields));
                }
            }
        }
    }
}
