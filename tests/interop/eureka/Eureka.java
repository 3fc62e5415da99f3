import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;

/** Spring Cloud's Eureka server, as its documentation has it. */
@EnableAutoConfiguration
@EnableEurekaServer
public class Eureka {
	public static void main(String[] arguments) {
		SpringApplication.run(Eureka.class, arguments);
	}
}
