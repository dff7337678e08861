import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.MemoryRecords;

/**
 * Writes a line of JSON for each error code and for each API of a broker in ZooKeeper mode, if the first argument is
 * "codes"; then, for each message named as a further argument (such as FetchRequest), in each version and for each way to fill it, a line of the values set, the bytes of
 * the body, and those of the header before it; and for each of its structures, the defaults, and what becomes of values
 * that a version has no field for.
 */
public class WriteMessages {
    /** How fields are filled; DEFAULT leaves them as the constructor does. */
    enum Fill { FULL, NULLS, LEAST, LONG, DEFAULT }

    /** A deterministic sequence that never gives a field its default, as long as no default is in the thousands. */
    private static int count;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("codes")) {
            codes();
        }
        for (String name : List.of(args).subList(1, args.length)) {
            Class<?> type = Class.forName("org.apache.kafka.common.message." + name + "Data");
            short lowest = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
            short highest = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            for (short version = lowest; version <= highest; version++) {
                for (Fill fill : Fill.values()) {
                    line(name, (ApiMessage) type.getConstructor().newInstance(), version, fill);
                }
            }
            for (Class<?> struct : structs(type)) {
                String of = struct == type ? name : struct.getSimpleName();
                defaults(name, of, (Message) struct.getConstructor().newInstance());
                for (short version = lowest; version <= highest; version++) {
                    if (schema(struct, version) != null) {
                        absent(name, of, struct, version, highest);
                    }
                }
            }
        }
    }

    private static void codes() throws Exception {
        for (Errors error : Errors.values()) {
            System.out.printf("{\"error\":\"%s\",\"code\":%d,\"retriable\":%b}%n",
                error, error.code(), error.exception() instanceof RetriableException);
        }
        // By its name: newer clients know nothing of ZooKeeper.
        for (Object found : (Collection<?>) ApiKeys.class.getMethod("zkBrokerApis").invoke(null)) {
            ApiKeys api = (ApiKeys) found;
            System.out.printf("{\"api\":\"%s\",\"key\":%d,\"versions\":[%d,%d]}%n",
                api, api.id, api.oldestVersion(), api.latestVersion());
        }
    }

    private static void line(String name, ApiMessage message, short version, Fill fill) throws Exception {
        count = 1000;
        if (fill != Fill.DEFAULT) {
            fill(message, version, fill);
        }
        ByteBuffer body;
        try {
            body = MessageUtil.toByteBuffer(message, version);
        } catch (NullPointerException error) {
            if (fill != Fill.DEFAULT) {
                throw error;
            }
            return; // The default is null, and this version has none.
        }
        StringBuilder out = new StringBuilder();
        out.append("{\"message\":\"").append(name).append("\",\"version\":").append(version);
        out.append(",\"fill\":\"").append(fill.name().toLowerCase()).append("\",\"values\":");
        json(out, message, version);
        out.append(",\"header\":\"").append(hex(header(name, message, version)));
        out.append("\",\"body\":\"").append(hex(body)).append("\"}");
        System.out.println(out);
    }

    private static List<Class<?>> structs(Class<?> type) {
        List<Class<?>> found = new ArrayList<>(List.of(type));
        for (Class<?> inner : type.getDeclaredClasses()) {
            if (Message.class.isAssignableFrom(inner)) {
                found.addAll(structs(inner));
            }
        }
        found.sort(Comparator.comparing(Class::getName));
        return found;
    }

    private static void defaults(String name, String of, Message made) throws Exception {
        StringBuilder out = new StringBuilder();
        out.append("{\"defaults\":\"").append(name).append("\",\"struct\":\"").append(of).append("\",\"values\":");
        json(out, made, ALL);
        System.out.println(out.append("}"));
    }

    /** What writing does in a version with the values of fields that only other versions have. */
    private static void absent(String name, String of, Class<?> type, short version, short highest) throws Exception {
        Set<String> present = present(type, version).keySet();
        List<String> ignored = new ArrayList<>();
        List<String> refused = new ArrayList<>();
        for (Field field : fields(type)) {
            String called = snake(field.getName());
            if (present.contains(called)) {
                continue;
            }
            Message made = struct(type, version, Fill.FULL);
            boolean isTrue = field.getType() == boolean.class && field.getBoolean(made);
            field.set(made, field.getType() == boolean.class
                ? !isTrue : value(field.getGenericType(), field.getType(), highest, Fill.FULL));
            try {
                MessageUtil.toByteBuffer(made, version);
                ignored.add('"' + called + '"');
            } catch (UnsupportedVersionException error) {
                refused.add('"' + called + '"');
            }
        }
        if (ignored.size() + refused.size() > 0) {
            System.out.printf("{\"absent\":\"%s\",\"struct\":\"%s\",\"version\":%d,\"ignored\":%s,\"refused\":%s}%n",
                name, of, version, ignored, refused);
        }
    }

    private static ByteBuffer header(String name, ApiMessage message, short version) {
        ApiKeys api = ApiKeys.forId(message.apiKey());
        if (name.endsWith("Request")) {
            RequestHeaderData header = new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion(version)
                .setCorrelationId(77).setClientId("client");
            return MessageUtil.toByteBuffer(header, api.requestHeaderVersion(version));
        }
        return MessageUtil.toByteBuffer(
            new ResponseHeaderData().setCorrelationId(77), api.responseHeaderVersion(version));
    }

    // The fields of a version, by their names on the wire

    private static Map<String, org.apache.kafka.common.protocol.types.Type> present(Class<?> type, short version)
            throws Exception {
        Map<String, org.apache.kafka.common.protocol.types.Type> found = new TreeMap<>();
        if (version == ALL) {
            fields(type).forEach(field -> found.put(snake(field.getName()), null));
            return found;
        }
        Schema schema = schema(type, version);
        for (BoundField field : schema == null ? new BoundField[0] : schema.fields()) {
            if (field.def.type instanceof TaggedFields) {
                Field section = TaggedFields.class.getDeclaredField("fields");
                section.setAccessible(true);
                for (Object value : ((Map<?, ?>) section.get(field.def.type)).values()) {
                    org.apache.kafka.common.protocol.types.Field tagged =
                        (org.apache.kafka.common.protocol.types.Field) value;
                    found.put(tagged.name, tagged.type);
                }
            } else {
                found.put(field.def.name, field.def.type);
            }
        }
        return found;
    }

    /** Null where the version has no such structure. */
    private static Schema schema(Class<?> type, short version) throws Exception {
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        return version < schemas.length ? schemas[version] : null;
    }

    /** Instead of a version: all fields. */
    private static final short ALL = -1;

    private static String snake(String name) {
        return name.replaceAll("([a-z0-9])([A-Z])", "$1_$2").toLowerCase();
    }

    private static List<Field> fields(Class<?> type) {
        List<Field> found = new ArrayList<>();
        for (Field field : type.getDeclaredFields()) {
            // What keyed collections and unknown tags keep in an element is no field of the message.
            boolean own = List.of("_unknownTaggedFields", "next", "prev").contains(field.getName());
            if (!own && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                found.add(field);
            }
        }
        return found;
    }

    // Filling

    private static void fill(Message message, short version, Fill fill) throws Exception {
        Map<String, org.apache.kafka.common.protocol.types.Type> present = present(message.getClass(), version);
        for (Field field : fields(message.getClass())) {
            org.apache.kafka.common.protocol.types.Type wire = present.get(snake(field.getName()));
            if (wire == null) {
                continue;
            }
            boolean none = fill == Fill.LEAST
                || fill == Fill.NULLS && !Collection.class.isAssignableFrom(field.getType());
            if (none && wire.isNullable()) {
                field.set(message, null);
            } else {
                field.set(message, value(field.getGenericType(), field.getType(), version, fill));
            }
        }
    }

    private static Object value(Type generic, Class<?> type, short version, Fill fill) throws Exception {
        boolean least = fill == Fill.LEAST || fill == Fill.NULLS;
        boolean most = fill == Fill.LONG;
        int number = ++count;
        if (type == boolean.class || type == Boolean.class) {
            return fill == Fill.FULL ? number % 2 == 0 : most;
        } else if (type == byte.class || type == Byte.class) {
            return least ? Byte.MIN_VALUE : most ? Byte.MAX_VALUE : (byte) (number % 100 + 1);
        } else if (type == short.class || type == Short.class) {
            return least ? Short.MIN_VALUE : most ? Short.MAX_VALUE : (short) number;
        } else if (type == int.class || type == Integer.class) {
            return least ? Integer.MIN_VALUE : most ? Integer.MAX_VALUE : number << 16 | number;
        } else if (type == long.class || type == Long.class) {
            return least ? Long.MIN_VALUE : most ? Long.MAX_VALUE : (long) number << 40 | number;
        } else if (type == double.class || type == Double.class) {
            return least ? -Double.MAX_VALUE : most ? Double.MAX_VALUE : number / 3.0;
        } else if (type == String.class) {
            return least ? "" : most ? "\u00e9\u4e16\ud83d\ude00".repeat(40) + number : "s" + number;
        } else if (type == Uuid.class) {
            return least ? Uuid.ZERO_UUID : new Uuid((long) number << 32, most ? -1L : number);
        } else if (type == byte[].class) {
            return bytes(fill, number);
        } else if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(bytes(fill, number));
        } else if (type == BaseRecords.class) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(fill, number)));
        } else if (Collection.class.isAssignableFrom(type)) {
            return collection(generic, type, version, fill);
        }
        return struct(type, version, fill);
    }

    private static byte[] bytes(Fill fill, int number) {
        return (fill == Fill.LEAST || fill == Fill.NULLS ? "" : fill == Fill.LONG ? "b".repeat(16500) : "b" + number).getBytes();
    }

    private static Message struct(Class<?> type, short version, Fill fill) throws Exception {
        Message made = (Message) type.getConstructor().newInstance();
        fill(made, version, fill);
        return made;
    }

    @SuppressWarnings("unchecked")
    private static Object collection(Type generic, Class<?> type, short version, Fill fill) throws Exception {
        Type element = element(generic, type);
        // Keyed collections are classes of their own, which know the type of their elements.
        Collection<Object> made = type == List.class
            ? new ArrayList<>() : (Collection<Object>) type.getConstructor().newInstance();
        boolean scalars = element == Integer.class || element == Long.class || element == String.class;
        // 126 and 127 elements take one byte of length and two: the bound of a compact array.
        int size = fill == Fill.LEAST ? 0 : fill == Fill.FULL ? 2 : scalars ? 126 + count % 2 : 1;
        for (int i = 0; i < size; i++) {
            Fill each = scalars && element == String.class && fill == Fill.LONG ? Fill.FULL : fill;
            made.add(value(element, (Class<?>) element, version, each));
        }
        return made;
    }

    private static Type element(Type generic, Class<?> type) {
        Type declared = type == List.class ? generic : type.getGenericSuperclass();
        return ((ParameterizedType) declared).getActualTypeArguments()[0];
    }

    // Writing

    private static void json(StringBuilder out, Message message, short version) throws Exception {
        Map<String, org.apache.kafka.common.protocol.types.Type> present = present(message.getClass(), version);
        String comma = "{";
        for (Field field : fields(message.getClass())) {
            if (present.containsKey(snake(field.getName()))) {
                out.append(comma).append('"').append(snake(field.getName())).append("\":");
                comma = ",";
                json(out, field.get(message), version);
            }
        }
        out.append(comma.equals("{") ? "{}" : "}");
    }

    private static void json(StringBuilder out, Object value, short version) throws Exception {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else if (value instanceof String) {
            out.append('"').append(value).append('"');
        } else if (value instanceof Uuid) {
            Uuid id = (Uuid) value;
            ByteBuffer raw = ByteBuffer.allocate(16).putLong(id.getMostSignificantBits());
            raw.putLong(id.getLeastSignificantBits()).flip();
            out.append('"').append(hex(raw)).append('"');
        } else if (value instanceof byte[]) {
            out.append('"').append(hex(ByteBuffer.wrap((byte[]) value))).append('"');
        } else if (value instanceof ByteBuffer) {
            out.append('"').append(hex((ByteBuffer) value)).append('"');
        } else if (value instanceof MemoryRecords) {
            out.append('"').append(hex(((MemoryRecords) value).buffer())).append('"');
        } else if (value instanceof Collection) {
            String comma = "[";
            for (Object element : (Collection<?>) value) {
                out.append(comma);
                comma = ",";
                json(out, element, version);
            }
            out.append(comma.equals("[") ? "[]" : "]");
        } else {
            json(out, (Message) value, version);
        }
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder out = new StringBuilder();
        for (int i = buffer.position(); i < buffer.limit(); i++) {
            out.append(String.format("%02x", buffer.get(i)));
        }
        return out.toString();
    }
}
