/* Moves the clock of the day by as many seconds as the first eight bytes of $DRILL_CLOCK say, at that moment.
 *
 * Preloaded into a process. What waits for a time of that clock is given the true one, so that it wakes when it should;
 * what already waits when the clock jumps goes on waiting, where a kernel's own clock would wake it. The clock that only
 * counts on is left alone: no time service moves it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DRILL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) _exit(97);
    off = page;
    close(file);
}

static int64_t moved(void) { return off ? *off : 0; }

/* Without libc's own, which is the one that is replaced. */
static void told(clockid_t clock, struct timespec *at) {
    syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) at->tv_sec += moved();
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    told(clock, at);
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    told(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    told(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* A moment of the day's clock, as it counts from 1970, is years behind any moment of the clock since the start. */
static struct timespec truly(const struct timespec *until) {
    struct timespec at = *until;
    if (at.tv_sec > 1000000000 - 2 * 86400) at.tv_sec -= moved();
    return at;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict t) {
    static __typeof__(&pthread_cond_timedwait) next;
    struct timespec at = truly(t);
    if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = NEXT(pthread_cond_timedwait);
    return next(c, m, &at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict t) {
    struct timespec at = truly(t);
    return NEXT(pthread_mutex_timedlock)(m, &at);
}

int sem_timedwait(sem_t *restrict s, const struct timespec *restrict t) {
    struct timespec at = truly(t);
    return NEXT(sem_timedwait)(s, &at);
}

long syscall(long number, ...) {
    static __typeof__(&syscall) next;
    va_list given;
    long a[6];
    struct timespec at;
    va_start(given, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(given, long);
    va_end(given);
    if (!next) next = NEXT(syscall);
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && a[3]) {
        at = truly((const struct timespec *)a[3]);
        a[3] = (long)&at;
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
