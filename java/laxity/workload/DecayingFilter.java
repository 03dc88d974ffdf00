package laxity.workload;

/**
 * A Bloom filter whose counts fade (Bianchi et al., "On-demand time-decaying Bloom filters for telemarketer detection",
 * 2011): a cell decays when it is touched, by the time since it was last.
 */
final class DecayingFilter {
    private static final int HASHES = 7;

    private final double[] counts;
    private final long[] touchedS;
    private final double halfLifeS;

    DecayingFilter(int cells, double halfLifeS) {
        counts = new double[cells];
        touchedS = new long[cells];
        this.halfLifeS = halfLifeS;
    }

    void add(long key, double amount, long nowS) {
        for (int hash = 0; hash < HASHES; hash++) {
            int cell = cell(key, hash);
            counts[cell] = decayed(cell, nowS) + amount;
            touchedS[cell] = nowS;
        }
    }

    /** At least what was added for the key, faded. */
    double estimate(long key, long nowS) {
        double least = Double.MAX_VALUE;
        for (int hash = 0; hash < HASHES; hash++) {
            least = Math.min(least, decayed(cell(key, hash), nowS));
        }
        return least;
    }

    private int cell(long key, int hash) {
        return (int) (Hash.of(key, hash) % counts.length);
    }

    private double decayed(int cell, long nowS) {
        return counts[cell] * Math.pow(0.5, (nowS - touchedS[cell]) / halfLifeS);
    }
}
