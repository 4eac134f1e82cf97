/* Preloaded into the service: appends each address that it connects to, and each name that it looks up, to the file
   CONNECTIONS_LOG, and goes on as usual. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void append(const char *kind, const char *name) {
    FILE *log = fopen(getenv("CONNECTIONS_LOG"), "a");
    if (log == NULL) abort();
    fprintf(log, "%s %s\n", kind, name);
    fclose(log);
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    char text[INET6_ADDRSTRLEN] = "another family";
    char line[INET6_ADDRSTRLEN + 8];
    int port = 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        port = ntohs(v4->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        port = ntohs(v6->sin6_port);
    }
    snprintf(line, sizeof line, "%s:%d", text, port);
    append("connect", line);
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    return next(fd, address, length);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **results) {
    append("look up", node == NULL ? "" : node);
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    return next(node, service, hints, results);
}
