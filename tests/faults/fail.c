// Fails one call that changes files below FAULT_DIR: the FAULT_AT-th of them (from 1) gets ENOSPC, or kills the process when
// FAULT_KILL is set; with FAULT_SHORT a write takes half of its bytes first. Preloaded by tests/tests/faults.rs.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long calls;

static int below(const char *path) {
    const char *dir = getenv("FAULT_DIR");
    return dir && path && strncmp(path, dir, strlen(dir)) == 0;
}

static int below_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

// Whether this call is the one to fail.
static int due(void) {
    const char *at = getenv("FAULT_AT");
    if (!at || __sync_add_and_fetch(&calls, 1) != atol(at)) return 0;
    if (getenv("FAULT_KILL")) raise(SIGKILL);
    errno = ENOSPC;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t n) {
    if (below_fd(fd)) {
        if (getenv("FAULT_SHORT") && n > 1 && getenv("FAULT_AT") && calls + 1 == atol(getenv("FAULT_AT"))) {
            REAL(write)(fd, data, n / 2);
        }
        if (due()) return -1;
    }
    return REAL(write)(fd, data, n);
}

static int open_any(const char *name, const char *path, int flags, mode_t mode) {
    if ((flags & O_CREAT) && below(path) && due()) return -1;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    return real(path, flags, mode);
}

static mode_t mode_of(int flags, va_list list) { return flags & O_CREAT ? va_arg(list, mode_t) : 0; }

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_any("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_any("open64", path, flags, mode);
}

int fsync(int fd) { return below_fd(fd) && due() ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return below_fd(fd) && due() ? -1 : REAL(fdatasync)(fd); }
int mkdir(const char *path, mode_t mode) { return below(path) && due() ? -1 : REAL(mkdir)(path, mode); }
int rename(const char *from, const char *to) { return below(to) && due() ? -1 : REAL(rename)(from, to); }
int link(const char *from, const char *to) { return below(to) && due() ? -1 : REAL(link)(from, to); }
int unlink(const char *path) { return below(path) && due() ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return below(path) && due() ? -1 : REAL(rmdir)(path); }
int unlinkat(int dir, const char *path, int flags) { return below_fd(dir) && due() ? -1 : REAL(unlinkat)(dir, path, flags); }
