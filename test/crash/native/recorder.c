/*
 * Preloaded under a process, writes down in one order: every change to the files under $RECORD_DIR, the begin and the end
 * of every fsync there, and every byte that passes through its network sockets. From such a record every disk that a power
 * cut could have left can be built, next to what had been promised to the network at that moment.
 *
 * The order errs towards finding loss: what is sent is written down before the call, an fsync covers only what was written
 * down before it began and only once it has returned, what is received is written down after the call. A call that would
 * change a watched file unseen ends the process, so a record is complete or does not exist.
 *
 *   RECORD_DIR       folder to watch; must exist
 *   RECORD_LOG       file to append records to
 *   RECORD_SYNC_US   each fsync takes so much longer, between its begin and the real one
 *   RECORD_EIO       SUFFIX:N: the Nth fsync of a file with that ending fails once with EIO
 *
 * Record: u8 0xC7, u8 kind, u16 path bytes, i32 fd, i64 offset, u32 data bytes, path, data; little endian as the machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS_MAX = 65536 };
enum kind {
  START = 'S', CREATE = 'C', WRITE = 'W', TRUNCATE = 'T', UNLINK = 'U', RENAME = 'R', FOLDER = 'D',
  SYNC_BEGIN = 'b', SYNC_END = 'e', SYNC_FAILED = 'x',
  SENDING = 'o', SENT = 'k', RECEIVED = 'i', HUNG_UP = 'h',
};

static char folder[PATH_MAX];
static size_t folder_length;
static char *watched_path[FDS_MAX];
static char is_network[FDS_MAX];
static int out = -1;
static long sync_us;
static char eio_suffix[64];
static long eio_at, eio_seen;
static int64_t syncs;
/* Held while a change is made and written down, so that the record has the order of the changes. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ({ static __typeof__(&name) real_; if (!real_) real_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real_; })
#define KEEP_ERRNO(...) do { int errno_ = errno; __VA_ARGS__; errno = errno_; } while (0)

static void refuse(const char *what) {
  dprintf(2, "recorder: %s cannot be recorded\n", what);
  abort();
}

static void note(enum kind kind, int fd, int64_t offset, const char *path, const void *data, size_t bytes) {
  if (out < 0) return;
  struct __attribute__((packed)) { uint8_t magic, kind; uint16_t path; int32_t fd; int64_t offset; uint32_t data; } head =
    { 0xC7, kind, path ? strlen(path) : 0, fd, offset, bytes };
  struct iovec parts[] = { { &head, sizeof head }, { (void *)path, head.path }, { (void *)data, bytes } };
  if (REAL(writev)(out, parts, 3) != (long)(sizeof head + head.path + bytes)) refuse("a full log");
}

static void note_alone(enum kind kind, int fd, int64_t offset, const char *path, const void *data, size_t bytes) {
  pthread_mutex_lock(&order);
  note(kind, fd, offset, path, data, bytes);
  pthread_mutex_unlock(&order);
}

__attribute__((constructor)) static void start(void) {
  const char *dir = getenv("RECORD_DIR"), *log = getenv("RECORD_LOG"), *option;
  if (!dir || !log || !realpath(dir, folder)) return;
  folder_length = strlen(folder);
  if ((option = getenv("RECORD_SYNC_US"))) sync_us = atol(option);
  if ((option = getenv("RECORD_EIO"))) sscanf(option, "%63[^:]:%ld", eio_suffix, &eio_at);
  out = REAL(openat)(AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) refuse("without a log");
  note(START, getpid(), 0, NULL, NULL, 0);
}

/* The path relative to the watched folder ("." for itself) as a new string, or NULL when it is somewhere else. */
static char *watched(int at, const char *path) {
  char full[PATH_MAX], parent[PATH_MAX];
  if (out < 0 || !path || (at != AT_FDCWD && *path != '/')) return NULL;
  if (!realpath(path, full)) {
    const char *slash = strrchr(path, '/');
    if (snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".") >= PATH_MAX) return NULL;
    if (!realpath(parent, full)) return NULL;
    size_t length = strlen(full);
    snprintf(full + length, sizeof full - length, "/%s", slash ? slash + 1 : path);
  }
  if (strncmp(full, folder, folder_length)) return NULL;
  if (full[folder_length] == 0) return strdup(".");
  return full[folder_length] == '/' ? strdup(full + folder_length + 1) : NULL;
}

static char *file_of(int fd) { return fd >= 0 && fd < FDS_MAX ? watched_path[fd] : NULL; }

static int opened(int at, const char *path, int flags, mode_t mode) {
  char *name = watched(at, path);
  if (!name) return REAL(openat)(at, path, flags, mode);
  struct stat before;
  pthread_mutex_lock(&order);
  int existed = !fstatat(at, path, &before, 0);
  int fd = REAL(openat)(at, path, flags, mode);
  KEEP_ERRNO(
    if (fd >= FDS_MAX) refuse("so many files");
    if (fd >= 0) {
      if (!existed) note(CREATE, fd, 0, name, NULL, 0);
      else if (flags & O_TRUNC) note(TRUNCATE, fd, 0, name, NULL, 0);
      free(watched_path[fd]);
      watched_path[fd] = name;
    } else free(name)
  );
  pthread_mutex_unlock(&order);
  return fd;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }

static void forget(int fd) {
  if (fd >= 0 && fd < FDS_MAX && (watched_path[fd] || is_network[fd])) {
    pthread_mutex_lock(&order);
    if (is_network[fd]) note(HUNG_UP, fd, 0, NULL, NULL, 0);
    is_network[fd] = 0;
    free(watched_path[fd]);
    watched_path[fd] = NULL;
    pthread_mutex_unlock(&order);
  }
}
int close(int fd) {
  forget(fd);
  return REAL(close)(fd);
}

/* ---- files ---- */

static ssize_t written(int fd, const void *data, ssize_t bytes, int64_t offset) {
  KEEP_ERRNO(if (bytes > 0) note(WRITE, fd, offset, file_of(fd), data, bytes));
  pthread_mutex_unlock(&order);
  return bytes;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
  if (!file_of(fd)) return REAL(pwrite64)(fd, data, bytes, offset);
  pthread_mutex_lock(&order);
  return written(fd, data, REAL(pwrite64)(fd, data, bytes, offset), offset);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite64(fd, data, bytes, offset); }

static ssize_t written_at_cursor(int fd, const void *data, size_t bytes) {
  pthread_mutex_lock(&order);
  int64_t offset = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
  return written(fd, data, REAL(write)(fd, data, bytes), offset);
}

int ftruncate64(int fd, off64_t bytes) {
  if (!file_of(fd)) return REAL(ftruncate64)(fd, bytes);
  pthread_mutex_lock(&order);
  int result = REAL(ftruncate64)(fd, bytes);
  KEEP_ERRNO(if (!result) note(TRUNCATE, fd, bytes, file_of(fd), NULL, 0));
  pthread_mutex_unlock(&order);
  return result;
}
int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }

static int fails_now(const char *path) {
  size_t path_length = strlen(path), length = strlen(eio_suffix);
  if (!eio_at || path_length < length || strcmp(path + path_length - length, eio_suffix)) return 0;
  return ++eio_seen == eio_at;
}

static int synced(int fd, int (*real)(int)) {
  char *path = file_of(fd);
  if (!path) return real(fd);
  pthread_mutex_lock(&order);
  int64_t id = ++syncs;
  int fails = fails_now(path);
  note(SYNC_BEGIN, fd, id, path, NULL, 0);
  pthread_mutex_unlock(&order);
  if (sync_us) usleep(sync_us);
  int result = fails ? -1 : real(fd);
  if (fails) errno = EIO;
  KEEP_ERRNO(note_alone(result ? SYNC_FAILED : SYNC_END, fd, id, path, NULL, 0));
  return result;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

#define NAMED(call, kind, path) \
  char *name = watched(AT_FDCWD, path); \
  if (!name) return call; \
  pthread_mutex_lock(&order); \
  int result = call; \
  KEEP_ERRNO(if (!result) note(kind, -1, 0, name, NULL, 0); free(name)); \
  pthread_mutex_unlock(&order); \
  return result;
int unlink(const char *path) { NAMED(REAL(unlink)(path), UNLINK, path) }
int mkdir(const char *path, mode_t mode) { NAMED(REAL(mkdir)(path, mode), FOLDER, path) }

int rename(const char *from, const char *to) {
  char *a = watched(AT_FDCWD, from), *b = watched(AT_FDCWD, to);
  if (!a && !b) return REAL(rename)(from, to);
  if (!a || !b) refuse("a rename across the watched folder");
  pthread_mutex_lock(&order);
  int result = REAL(rename)(from, to);
  KEEP_ERRNO(
    if (!result) {
      note(RENAME, -1, 0, a, b, strlen(b));
      for (int fd = 0; fd < FDS_MAX; fd++) if (watched_path[fd] && !strcmp(watched_path[fd], a)) {
        free(watched_path[fd]);
        watched_path[fd] = strdup(b);
      }
    }
    free(a);
    free(b)
  );
  pthread_mutex_unlock(&order);
  return result;
}

/* ---- network ---- */

static int network(int fd) {
  if (out < 0 || fd < 0 || fd >= FDS_MAX || fd == out || watched_path[fd]) return 0;
  if (is_network[fd]) return 1;
  int domain = 0, error = errno;
  socklen_t length = sizeof domain;
  int yes = !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) && (domain == AF_INET || domain == AF_INET6);
  errno = error;
  return is_network[fd] = yes;
}
static void sending(int fd, const void *data, size_t bytes) { note_alone(SENDING, fd, 0, NULL, data, bytes); }
static ssize_t sent(int fd, ssize_t bytes) { KEEP_ERRNO(note_alone(SENT, fd, bytes, NULL, NULL, 0)); return bytes; }
static ssize_t received(int fd, const void *data, ssize_t bytes) {
  if (bytes > 0 && network(fd)) KEEP_ERRNO(note_alone(RECEIVED, fd, 0, NULL, data, bytes));
  return bytes;
}
static char *joined(const struct iovec *parts, size_t count, size_t *bytes) {
  *bytes = 0;
  for (size_t i = 0; i < count; i++) *bytes += parts[i].iov_len;
  char *data = malloc(*bytes + 1), *at = data;
  for (size_t i = 0; i < count; i++) at = mempcpy(at, parts[i].iov_base, parts[i].iov_len);
  return data;
}

ssize_t write(int fd, const void *data, size_t bytes) {
  if (file_of(fd)) return written_at_cursor(fd, data, bytes);
  if (!network(fd)) return REAL(write)(fd, data, bytes);
  sending(fd, data, bytes);
  return sent(fd, REAL(write)(fd, data, bytes));
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  int file = file_of(fd) != NULL;
  if (!file && !network(fd)) return REAL(writev)(fd, parts, count);
  size_t bytes;
  char *data = joined(parts, count, &bytes);
  ssize_t result;
  if (file) result = written_at_cursor(fd, data, bytes);
  else {
    sending(fd, data, bytes);
    result = sent(fd, REAL(writev)(fd, parts, count));
  }
  KEEP_ERRNO(free(data));
  return result;
}
ssize_t send(int fd, const void *data, size_t bytes, int flags) {
  if (!network(fd)) return REAL(send)(fd, data, bytes, flags);
  sending(fd, data, bytes);
  return sent(fd, REAL(send)(fd, data, bytes, flags));
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (!network(fd)) return REAL(sendmsg)(fd, message, flags);
  size_t bytes;
  char *data = joined(message->msg_iov, message->msg_iovlen, &bytes);
  sending(fd, data, bytes);
  free(data);
  return sent(fd, REAL(sendmsg)(fd, message, flags));
}
ssize_t read(int fd, void *data, size_t bytes) { return received(fd, data, REAL(read)(fd, data, bytes)); }
ssize_t recv(int fd, void *data, size_t bytes, int flags) { return received(fd, data, REAL(recv)(fd, data, bytes, flags)); }

/* ---- what must not happen unseen ---- */

/* libuv closes, and could write, past the C library's own functions. */
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_close) forget(a[0]);
  if ((number == SYS_pwritev || number == SYS_pwritev2 || number == SYS_fallocate) && file_of(a[0])) refuse("this system call");
  if (number == SYS_io_uring_setup) {
    errno = ENOSYS;
    return -1;
  }
  return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
  if (file_of(fd)) refuse("pwritev");
  return REAL(pwritev64)(fd, parts, count, offset);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return pwritev64(fd, parts, count, offset); }
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags) {
  if (file_of(to)) refuse("copy_file_range");
  return REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
}
int posix_fallocate64(int fd, off64_t offset, off64_t bytes) {
  if (file_of(fd)) refuse("fallocate");
  return REAL(posix_fallocate64)(fd, offset, bytes);
}
int rmdir(const char *path) {
  char *name = watched(AT_FDCWD, path);
  if (name) refuse("rmdir");
  return REAL(rmdir)(path);
}
ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  ssize_t result = REAL(recvmsg)(fd, message, flags);
  if (result > 0 && network(fd)) refuse("recvmsg");
  return result;
}
/* A shared mapping changes a file without a call; SQLite has one on its -shm only, which need not survive. */
void *mmap64(void *at, size_t bytes, int access, int flags, int fd, off64_t offset) {
  const char *path = file_of(fd);
  size_t length = path ? strlen(path) : 0;
  if (path && (flags & MAP_SHARED) && (access & PROT_WRITE) && (length < 4 || strcmp(path + length - 4, "-shm"))) refuse("mmap");
  return REAL(mmap64)(at, bytes, access, flags, fd, offset);
}
