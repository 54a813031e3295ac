/* SPDX-License-Identifier: MIT */
#include "daemon/engine-options.h"
#include "base/err.h"
#include "daemon/settings.h"
#include "service/secret.h"

/* Of a file that has a password. */
#define PASSWORD_FILE_MAX 65536

struct engine_options engine_options_of(const struct settings *s) {
        return (struct engine_options){
                .model_path = s->model,
                .state_dir = s->state,
                .register_uri = s->store,
                .register_wait_usec = s->store_timeout,
                .lease_usec = s->lease_time,
                .address = s->address,
                .socket = s->socket && s->socket[0] == '/' ? s->socket : NULL,
                .remote = {.uri = s->remote,
                        .user = s->remote_user,
                        .ca_file = s->remote_ca_file,
                        .timeout_usec = s->remote_timeout,
                        .keep_sec = (uint32_t)(s->remote_keep / 1000000),
                        .write_share = (uint32_t)s->remote_write_share,
                        .writes_per_day = s->remote_writes_per_day},
                .pool_size = s->pool_size,
                .n_threads = (uint32_t)s->threads,
                .context = (uint32_t)s->context,
                .kv_type = (enum engine_kv)s->kv_type,
                .batch_tokens = (uint32_t)s->batch_tokens,
                .prefill_share = (uint32_t)s->prefill_share,
                .max_active = (uint32_t)s->max_active,
                .default_max_tokens = (uint32_t)s->default_max_tokens,
                .max_conversations_per_owner = (uint32_t)s->max_conversations,
                .max_requests_per_owner = (uint32_t)s->max_user_requests,
                .max_queued = (uint32_t)s->max_queued,
                .max_tokens_per_owner = s->max_user_tokens,
                .max_tokens_per_day_per_owner = s->max_user_tokens_per_day,
                .ram_share_per_owner = (uint32_t)s->ram_share_per_user,
                .max_tenants_per_user = (uint32_t)s->max_user_tenants,
                .max_throwaways_per_owner = (uint32_t)s->max_throwaways,
                .disk_limit = s->disk_limit,
                .disk_limit_per_owner = s->disk_limit_per_user,
                .disk_writes_per_day = s->disk_writes_per_day,
                .disk_floor = s->disk_floor,
                .spill_delay_ms = s->spill_delay ? (uint32_t)(s->spill_delay / 1000) : UINT32_MAX,
                .spill_codec = (uint32_t)s->spill_codec,
                .speculation = s->speculation,
                .repack = s->repack,
                .max_isa = (uint32_t)s->max_isa,
                .fingerprint = s->model_fingerprint,
                .verify_model = s->verify_model,
                .chat_format = s->chat_format,
        };
}

int engine_options_password(const struct settings *s, char **ret, struct err *e) {
        int r;

        if (!s->remote || !s->remote_password_file)
                return 0;
        r = secret_read_line(ret, s->remote_password_file, PASSWORD_FILE_MAX, e);
        return err_wrap(e, r, "remote-password-file: %s", s->remote_password_file);
}
