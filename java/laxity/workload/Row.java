package laxity.workload;

import java.io.Serializable;

/**
 * A row on its way through a {@link Dataflow}. Never changed once it is given on: Storm hands the same object to several
 * operators. A bean by Flink's rules, so that Flink serialises it without Kryo.
 */
public final class Row implements Serializable {
    /** When it was due at the source, microseconds since 1970. What an operator makes of it keeps that time. */
    public long arrivalUs;
    /** The phase of the measurement that it was sent in. */
    public int phase;
    /** The operator that made it. */
    public String from = "";
    /** As it arrived; empty behind the operator that parses it. */
    public String line = "";
    /** Tells which rows of a join belong together. */
    public long id;
    public long key;
    public long time;
    public double value;
    /** The end of its phase: the last row on each path, with the number of rows sent in {@link #id}. */
    public boolean isLast;

    /** A row made of this one by an operator. */
    public Row made(long key, double value) {
        Row row = new Row();
        row.arrivalUs = arrivalUs;
        row.phase = phase;
        row.id = id;
        row.time = time;
        row.key = key;
        row.value = value;
        return row;
    }

    static Row last(int phase, long sent) {
        Row row = new Row();
        row.phase = phase;
        row.id = sent;
        row.isLast = true;
        return row;
    }
}
