/* SPDX-License-Identifier: MIT */
#include "daemon/requests.h"
#include "base/map.h"
#include "daemon/request-log.h"

void request_list_init(struct request_list *list) {
        list_init(&list->requests);
        list->n = 0;
}

struct request *request_list_find(const struct request_list *list, uint64_t id) {
        struct list *it;

        list_for_each (it, &list->requests) {
                struct request *request = list_entry(it, struct request, link);

                if (request->id == id)
                        return request;
        }
        return NULL;
}

void request_disown(struct request *request) {
        if (request->among) {
                list_unlink(&request->link);
                request->among->n--;
        }
        request->among = NULL;
        request->peer = NULL;
        if (!request->survives)
                request->on_event = NULL;
}

static void drop(struct requests *requests, struct request *request) {
        map_remove_u64(requests->by_handle, request->handle);
        request_log_free(request);
        request_disown(request);
        free(request->audit);
        free(request->owned);
        free(request);
}

int requests_submit(struct requests *requests, const struct request *asked,
        struct engine_request *er, struct err *e) {
        struct request *request = malloc(sizeof(*request));
        int r;

        if (!request)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        *request = *asked;
        request->handle = er->handle = ++requests->next_handle;
        request->verb = er->verb;
        request->conv_id = er->conv_id;
        list_init(&request->link);
        request_log_move(request);
        r = map_add_u64(requests->by_handle, request->handle, request, e);
        if (r < 0) {
                request_log_free(request);
                free(request);
                return r;
        }
        if (request->among) {
                list_append(&request->among->requests, &request->link);
                request->among->n++;
        }
        r = engine_submit(requests->engine, er, e);
        if (r < 0) {
                request->audit = NULL; /* the caller's */
                request->owned = NULL; /* the caller's again */
                drop(requests, request);
        }
        return r;
}

void requests_dispatch(struct requests *requests, struct engine_event *event, request_fn *failed) {
        struct request *request = map_get_u64(requests->by_handle, event->handle);

        if (!request)
                return;
        if (event->kind == ENGINE_ERROR)
                failed(request, event);
        request_log_event(request, event);
        if (event->final && request->audit)
                requests->on_audit(request, event);
        if (request->on_event)
                request->on_event(request, event);
        if (event->final)
                drop(requests, request);
}

size_t requests_count(const struct requests *requests) {
        return map_count(requests->by_handle);
}

int requests_init(struct requests *requests, struct err *e) {
        *requests = (struct requests){};
        return map_new(&requests->by_handle, e);
}

void requests_deinit(struct requests *requests) {
        struct request *request;
        size_t it = 0;

        while (requests->by_handle && (request = map_next(requests->by_handle, &it))) {
                request_log_free(request);
                free(request->audit);
                free(request->owned);
                free(request);
        }
        map_free(requests->by_handle);
        *requests = (struct requests){};
}
