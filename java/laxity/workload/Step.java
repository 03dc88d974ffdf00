package laxity.workload;

import java.io.IOException;
import java.io.Serializable;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * What an operator does with a row. One thread calls it at a time; an engine makes a new one for each instance, so that its
 * fields are its state.
 */
public interface Step {
    void onRow(Row row, Consumer<Row> out) throws IOException;

    /** The source's phase ended, and all of its rows have come. */
    default void onLast(Row row) throws IOException {}

    interface Factory extends Supplier<Step>, Serializable {}
}
