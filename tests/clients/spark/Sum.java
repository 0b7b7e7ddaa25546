import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** Adds up the numbers from 1 to 100 in four parts, which executors compute. */
public final class Sum {
    public static void main(String[] arguments) {
        try (JavaSparkContext context = new JavaSparkContext(new SparkConf())) {
            List<Integer> numbers = IntStream.rangeClosed(1, 100).boxed().collect(Collectors.toList());
            System.out.println("sum " + context.parallelize(numbers, 4).reduce(Integer::sum));
        }
    }
}
