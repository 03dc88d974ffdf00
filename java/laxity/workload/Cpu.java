package laxity.workload;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** CPU time, as the kernel counts it for the calling thread: the same work whether the thread is let run or not. */
final class Cpu {
    private Cpu() {}

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    /** Asking the kernel takes most of a microsecond. */
    private static final int SPINS = 50;

    static void spend(long ns) {
        if (ns <= 0) {
            return;
        }
        long until = THREADS.getCurrentThreadCpuTime() + ns;
        while (THREADS.getCurrentThreadCpuTime() < until) {
            for (int spin = 0; spin < SPINS; spin++) {
                Thread.onSpinWait();
            }
        }
    }
}
