import com.alibaba.nacos.api.naming.NamingFactory;
import com.alibaba.nacos.api.naming.NamingService;
import com.alibaba.nacos.api.naming.pojo.Instance;
import java.util.ArrayList;
import java.util.List;

/** Registers many services by Nacos's own client, until its input ends: what is ephemeral is there for as long as the connection. */
public class Provider {
	public static void main(String[] arguments) throws Exception {
		int services = Integer.parseInt(arguments[1]), endpoints = Integer.parseInt(arguments[2]);
		NamingService naming = NamingFactory.createNamingService(arguments[0]);

		for (int s = 0; s < services; s++)
			naming.batchRegisterInstance("many-" + s, "DEFAULT_GROUP", instances(endpoints));
		System.out.println("all are registered");
		while (System.in.read() >= 0)
			;
		System.exit(0); // the client's threads go on
	}

	private static List<Instance> instances(int count) {
		List<Instance> all = new ArrayList<>();

		for (int i = 0; i < count; i++) {
			Instance one = new Instance();

			one.setIp("10.0." + i / 250 + "." + (i % 250 + 1));
			one.setPort(8080);
			all.add(one);
		}
		return all;
	}
}
