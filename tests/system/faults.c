/* Calls of the C library that fail, or kill the process, when they are told to; LD_PRELOAD it.

   Every call that is counted has its number. faults_arm(at, error, mode): with mode 1 the call with
   that number fails with that error, with mode 2 so do all after it, with mode 3 the process is
   killed before it. faults_seen() returns how many there were since then. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long seen;
static long target = -1;
static int mode, error;

void faults_arm(long at, int number, int how) {
    target = at, error = number, mode = how;
    atomic_store(&seen, 0);
}

long faults_seen(void) { return atomic_load(&seen); }

static int fails(void) {
    if (!mode) return 0;
    long now = atomic_fetch_add(&seen, 1) + 1;
    if (mode == 3 && now == target) kill(getpid(), SIGKILL);
    if ((mode == 1 && now == target) || (mode == 2 && now >= target)) {
        errno = error;
        return 1;
    }
    return 0;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define FAULTY(type, name, parameters, arguments) \
    type name parameters { REAL(name); return fails() ? (type)-1 : real arguments; }
#define MODE(last) va_list rest; va_start(rest, last); int bits = va_arg(rest, int); va_end(rest)

int open(const char *path, int flags, ...) {
    REAL(open); MODE(flags); return fails() ? -1 : real(path, flags, bits);
}
int open64(const char *path, int flags, ...) {
    REAL(open64); MODE(flags); return fails() ? -1 : real(path, flags, bits);
}
int openat(int where, const char *path, int flags, ...) {
    REAL(openat); MODE(flags); return fails() ? -1 : real(where, path, flags, bits);
}
FAULTY(ssize_t, read, (int f, void *p, size_t n), (f, p, n))
FAULTY(ssize_t, pread64, (int f, void *p, size_t n, off64_t o), (f, p, n, o))
FAULTY(ssize_t, write, (int f, const void *p, size_t n), (f, p, n))
FAULTY(ssize_t, pwrite, (int f, const void *p, size_t n, off_t o), (f, p, n, o))
FAULTY(ssize_t, pwrite64, (int f, const void *p, size_t n, off64_t o), (f, p, n, o))
FAULTY(int, fsync, (int f), (f))
FAULTY(int, fdatasync, (int f), (f))
FAULTY(int, ftruncate64, (int f, off64_t n), (f, n))
FAULTY(int, rename, (const char *a, const char *b), (a, b))
FAULTY(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f))
FAULTY(int, mkdir, (const char *a, mode_t m), (a, m))
FAULTY(int, rmdir, (const char *a), (a))
FAULTY(int, unlink, (const char *a), (a))
FAULTY(int, unlinkat, (int d, const char *a, int f), (d, a, f))
FAULTY(int, chmod, (const char *a, mode_t m), (a, m))
FAULTY(int, fchmod, (int f, mode_t m), (f, m))
FAULTY(int, flock, (int f, int o), (f, o))
FAULTY(int, stat, (const char *a, struct stat *s), (a, s))
FAULTY(int, lstat, (const char *a, struct stat *s), (a, s))
FAULTY(int, stat64, (const char *a, struct stat64 *s), (a, s))
FAULTY(int, lstat64, (const char *a, struct stat64 *s), (a, s))
FAULTY(int, fstat64, (int f, struct stat64 *s), (f, s))
