/* A server that streams tokens at planned moments and says when it wrote each of them.
 *
 * usage: server REQUESTS FIRST_NS PACE_NS STALL_EVERY STALL_NS
 *
 * Prints its port; answers every POST with `max_tokens` events, one write each: the first FIRST_NS
 * after the request has arrived, the others PACE_NS apart, every STALL_EVERYth gap (0: none) longer
 * by STALL_NS. After REQUESTS answers (0: at SIGTERM) it prints one line for each and ends:
 *     KEY ARRIVED_NS STAMP_NS STAMP_NS ...
 * KEY is the number of token ids in the prompt, or 0; stamps are CLOCK_MONOTONIC, each taken
 * right before its write.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    int fd, chat, tokens, sent;
    char *in;
    size_t size, room;
    long key;
    int64_t arrived, *stamps;
} Stream;

typedef struct {
    int64_t due;
    Stream *stream;
} Due;

static Due *heap;
static size_t heap_size, heap_room;
static int64_t first_ns, pace_ns, stall_ns;
static int requests, done, answered_room, stall_every;
static volatile sig_atomic_t ended;
static Stream **answered;

static void end(int number) {
    (void)number;
    ended = 1;
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *grown(void *old, size_t bytes) {
    void *more = realloc(old, bytes);
    if (!more) { perror("realloc"); exit(1); }
    return more;
}

static void later(int64_t due, Stream *stream) {
    if (heap_size == heap_room) heap = grown(heap, (heap_room = heap_room * 2 + 64) * sizeof *heap);
    size_t i = heap_size++;
    for (; i && heap[(i - 1) / 2].due > due; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = (Due){due, stream};
}

static Due soonest(void) {
    Due top = heap[0], last = heap[--heap_size];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap_size) break;
        if (child + 1 < heap_size && heap[child + 1].due < heap[child].due) child++;
        if (heap[child].due >= last.due) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t taken = send(fd, data, size, MSG_NOSIGNAL);
        if (taken < 0 && errno == EINTR) continue;
        if (taken < 0) return; /* the client went away; it will miss the rest */
        data += taken;
        size -= (size_t)taken;
    }
}

/* One event of vLLM's shape, or of its chat variant, as one chunk of HTTP. */
static int event(const Stream *s, char *out, size_t room) {
    char body[1024];
    int n, count = s->sent + 1;
    const char *id = "5d1b34f0c8f64b7e9c1f6f0b2a7f1c9d";
    if (s->chat)
        n = snprintf(body, sizeof body,
            "data: {\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,"
            "\"model\":\"none\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,"
            "\"finish_reason\":null,\"token_ids\":[%d]}],\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
            "\"completion_tokens\":%d}}\n\n", id, 1000 + count, s->key, s->key + count, count);
    else
        n = snprintf(body, sizeof body,
            "data: {\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":1790000000,\"model\":\"none\","
            "\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":"
            "null,\"token_ids\":[%d]}],\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
            "\"completion_tokens\":%d}}\n\n", id, 1000 + count, s->key, s->key + count, count);
    return snprintf(out, room, "%x\r\n%s\r\n", n, body);
}

static void finish(Stream *s) {
    char body[512], out[600];
    int n = snprintf(body, sizeof body,
        "data: {\"id\":\"cmpl-0\",\"object\":\"%s\",\"created\":1790000000,\"model\":\"none\",\"choices\":[],"
        "\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
        s->chat ? "chat.completion.chunk" : "text_completion", s->key, s->key + s->tokens, s->tokens);
    n = snprintf(out, sizeof out, "%x\r\n%s\r\n0\r\n\r\n", n, body);
    write_all(s->fd, out, (size_t)n);
    close(s->fd);
    if (done == answered_room)
        answered = grown(answered, (size_t)(answered_room = answered_room * 2 + 256) * sizeof *answered);
    answered[done++] = s;
}

static void send_event(Due due) {
    Stream *s = due.stream;
    char out[1200];
    int n = event(s, out, sizeof out);
    s->stamps[s->sent++] = now();
    write_all(s->fd, out, (size_t)n);
    if (s->sent == s->tokens) { finish(s); return; }
    int stalls = stall_every && s->sent % stall_every == 0;
    later(due.due + pace_ns + (stalls ? stall_ns : 0), s);
}

static long number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    if (!at) return 0;
    at += strlen(name);
    while (*at == ' ' || *at == ':') at++;
    return strtol(at, NULL, 10);
}

static long ids_in_prompt(const char *body) {
    const char *at = strstr(body, "\"prompt\"");
    if (!at) return 0;
    at += 8;
    while (*at == ' ' || *at == ':') at++;
    if (*at != '[') return 0;
    long count = 1;
    for (; *at && *at != ']'; at++) count += *at == ',';
    return count;
}

static void answer_get(Stream *s) {
    const char *body = "{\"object\":\"list\",\"data\":[{\"id\":\"none\",\"object\":\"model\"}]}";
    char out[400];
    int n = snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body), body);
    write_all(s->fd, out, (size_t)n);
    close(s->fd);
}

/* Whether the request was whole, and is answered or will be. */
static int begin(Stream *s) {
    char *end = strstr(s->in, "\r\n\r\n");
    if (!end) return 0;
    if (!strncmp(s->in, "GET ", 4)) { answer_get(s); return 1; }
    char *length = strcasestr(s->in, "content-length:");
    if (!length || length > end) return 0;
    if (s->size < (size_t)(end + 4 - s->in) + (size_t)atol(length + 15)) return 0;
    s->arrived = now();
    s->chat = strstr(s->in, "/chat/") && strstr(s->in, "/chat/") < end;
    s->key = ids_in_prompt(end);
    s->tokens = (int)number_after(end, "\"max_tokens\"");
    if (!s->tokens) s->tokens = (int)number_after(end, "\"max_completion_tokens\"");
    if (!s->tokens) s->tokens = 16;
    s->stamps = grown(NULL, (size_t)s->tokens * sizeof *s->stamps);
    const char *head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                       "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    write_all(s->fd, head, strlen(head));
    later(s->arrived + first_ns, s);
    return 1;
}

static void receive(int poller, Stream *s) {
    for (;;) {
        if (s->room - s->size < 65536) s->in = grown(s->in, s->room = s->room * 2 + 131072);
        ssize_t n = recv(s->fd, s->in + s->size, s->room - s->size - 1, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) { close(s->fd); return; } /* a probe, or a client that gave up */
        s->size += (size_t)n;
        s->in[s->size] = 0;
        int fd = s->fd;
        if (begin(s)) { epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL); return; }
    }
}

static void take_all(int poller, int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) return;
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Stream *s = calloc(1, sizeof *s);
        if (!s) { perror("calloc"); exit(1); }
        s->fd = fd;
        struct epoll_event interest = {.events = EPOLLIN, .data.ptr = s};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &interest);
    }
}

static void wait_for_work(int poller, int listener) {
    struct pollfd ready = {.fd = poller, .events = POLLIN};
    int64_t ahead = heap_size ? heap[0].due - now() : 1000000000;
    if (ahead < 0) ahead = 0;
    struct timespec t = {ahead / 1000000000, ahead % 1000000000};
    if (ppoll(&ready, 1, &t, NULL) <= 0) return;
    struct epoll_event events[256];
    int n = epoll_wait(poller, events, 256, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr) receive(poller, events[i].data.ptr);
        else take_all(poller, listener);
    }
}

static void report(void) {
    for (int i = 0; i < done; i++) {
        Stream *s = answered[i];
        printf("%ld %lld", s->key, (long long)s->arrived);
        for (int k = 0; k < s->tokens; k++) printf(" %lld", (long long)s->stamps[k]);
        putchar('\n');
    }
}

int main(int argc, char **argv) {
    if (argc != 6) { fprintf(stderr, "usage: server REQUESTS FIRST_NS PACE_NS STALL_EVERY STALL_NS\n"); return 2; }
    requests = atoi(argv[1]);
    first_ns = atoll(argv[2]);
    pace_ns = atoll(argv[3]);
    stall_every = atoi(argv[4]);
    stall_ns = atoll(argv[5]);
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, end);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    if (bind(listener, (void *)&place, size) || listen(listener, 4096)) { perror("listen"); return 1; }
    getsockname(listener, (void *)&place, &size);
    printf("%d\n", ntohs(place.sin_port));
    fflush(stdout);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &interest);
    while (!ended && (!requests || done < requests)) {
        while (heap_size && heap[0].due <= now()) send_event(soonest());
        if (!requests || done < requests) wait_for_work(poller, listener);
    }
    report();
    return 0;
}
