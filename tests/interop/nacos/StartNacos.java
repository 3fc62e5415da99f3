import com.alibaba.nacos.NacosServerBasicApplication;
import com.alibaba.nacos.NacosServerWebApplication;
import com.alibaba.nacos.core.listener.startup.NacosStartUp;
import com.alibaba.nacos.core.listener.startup.NacosStartUpManager;
import com.alibaba.nacos.sys.env.DeploymentType;
import com.alibaba.nacos.sys.env.EnvUtil;
import java.sql.DriverManager;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;

/** A server of Nacos without its console, from the parts that are published. */
public class StartNacos {
	public static void main(String[] args) throws Exception {
		String home = System.getProperty("nacos.home");

		// Nacos gives its database ten seconds to come up, which a busy machine may not keep.
		DriverManager.getConnection("jdbc:derby:" + home + "/data/derby-data;create=true", "nacos", "nacos").close();
		EnvUtil.setDeploymentType(DeploymentType.SERVER);
		NacosStartUpManager.start(NacosStartUp.CORE_START_UP_PHASE);
		var core = new SpringApplicationBuilder(NacosServerBasicApplication.class).web(WebApplicationType.NONE).run(args);
		NacosStartUpManager.start(NacosStartUp.WEB_START_UP_PHASE);
		new SpringApplicationBuilder(NacosServerWebApplication.class).parent(core).run(args);
		System.out.println("ready");
	}
}
