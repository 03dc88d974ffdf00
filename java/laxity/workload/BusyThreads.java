package laxity.workload;

/**
 * Threads that take all the CPU they get, or almost none, to see what share the operating system gives them:
 * NAME…, each a thread's name, with a "~" before it one that only wakes up now and then. Ends with its input.
 */
public final class BusyThreads {
    private BusyThreads() {}

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            boolean isBusy = !name.startsWith("~");
            Thread thread = new Thread(isBusy ? BusyThreads::burn : BusyThreads::doze, isBusy ? name : name.substring(1));
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("running");
        while (System.in.read() >= 0) {
            // Until whoever started this closes its input.
        }
    }

    private static void burn() {
        while (true) {
            Thread.onSpinWait();
        }
    }

    private static void doze() {
        try {
            while (true) {
                Thread.sleep(100);
            }
        } catch (InterruptedException end) {
            // The process ends.
        }
    }
}
