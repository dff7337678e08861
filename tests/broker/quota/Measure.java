import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * What Kafka's measures say: reads lines "new rate|bucket SAMPLES SECONDS LIMIT" and "TIME_MS AMOUNT", and prints
 * for each of the latter the measure's value and the time to wait, as Kafka's broker works it out.
 */
public class Measure {
    public static void main(String[] words) {
        Scanner in = new Scanner(System.in);
        MeasurableStat stat = null;
        MetricConfig config = null;
        double limit = 0;
        while (in.hasNext()) {
            String first = in.next();
            if (first.equals("new")) {
                stat = in.next().equals("rate") ? new Rate() : new TokenBucket();
                config = new MetricConfig().samples(in.nextInt()).timeWindow(in.nextInt(), TimeUnit.SECONDS);
                limit = in.nextDouble();
                config.quota(new Quota(limit, true));
                continue;
            }
            long now = Long.parseLong(first);
            double amount = in.nextDouble();
            stat.record(config, amount, now);
            double value = stat.measure(config, now);
            long wait;
            if (stat instanceof Rate) {
                wait = value <= limit ? 0 : Math.round((value - limit) / limit * ((Rate) stat).windowSize(config, now));
            } else {
                wait = value >= 0 ? 0 : Math.round(-value / limit * 1000);
            }
            System.out.println(value + " " + wait);
        }
    }
}
