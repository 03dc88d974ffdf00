package laxity.workload;

/** Made-up numbers that are the same in every run. */
final class Hash {
    private Hash() {}

    /** Not negative. The finaliser of SplitMix64 (Steele, Lea, Flood, 2014). */
    static long of(long key, long seed) {
        long z = key + (seed + 1) * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return (z ^ (z >>> 31)) >>> 1;
    }
}
