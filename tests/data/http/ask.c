/* SPDX-License-Identifier: MIT
 *
 * tests/data/http/ask.c: what libhtp reads of requests by HTTP or, with an argument, of answers to a GET,
 * with the settings that Suricata gives it. Standard input: heads, each behind its bytes as a 32-bit number
 * of this host; behind an answer's its body may follow. Standard output: of each, where it is read to its
 * end, a line for each part, NAME and its bytes as hexadecimal digits, and an empty line.
 */
#include <htp/htp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void part(const char* name, const bstr* text) {
  if (text == NULL) return;
  printf("%s ", name);
  for (size_t i = 0; i < bstr_len(text); i++) printf("%02x", bstr_ptr(text)[i]);
  printf("\n");
}

/* As Suricata puts it together. */
static bstr* uri_of(htp_tx_t* tx) {
  const htp_uri_t* uri = tx->parsed_uri;
  bstr* made = bstr_alloc(1 << 16);
  if (uri->path != NULL) bstr_add_noex(made, uri->path);
  if (uri->query != NULL) {
    uint64_t flags = 0;
    htp_urldecode_inplace(tx->cfg, HTP_DECODER_URLENCODED, uri->query, &flags);
    bstr_add_c_noex(made, "?");
    bstr_add_noex(made, uri->query);
  }
  if (uri->fragment != NULL) {
    bstr_add_c_noex(made, "#");
    bstr_add_noex(made, uri->fragment);
  }
  return made;
}

static void tell(htp_tx_t* tx) {
  if (tx == NULL || tx->request_progress < HTP_REQUEST_BODY || tx->is_protocol_0_9) return;
  part("request_line", tx->request_line);
  part("method", tx->request_method);
  part("raw_uri", tx->request_uri);
  part("uri", uri_of(tx));
  part("protocol", tx->request_protocol);
  part("host", tx->request_hostname);
  for (size_t i = 0; i < htp_table_size(tx->request_headers); i++) {
    const htp_header_t* header = htp_table_get_index(tx->request_headers, i, NULL);
    part("name", header->name);
    part("value", header->value);
  }
}

static bstr* body; /* of the answer */
static int take_body(htp_tx_data_t* data) {
  if (data->data != NULL) body = bstr_add_mem(body, data->data, data->len);
  return HTP_OK;
}

static void tell_answer(htp_tx_t* tx) {
  if (tx == NULL || tx->response_progress < HTP_RESPONSE_BODY || tx->response_line == NULL) return;
  part("response_line", tx->response_line);
  part("answer_protocol", tx->response_protocol);
  part("stat_code", tx->response_status);
  part("stat_msg", tx->response_message);
  for (size_t i = 0; i < htp_table_size(tx->response_headers); i++) {
    const htp_header_t* header = htp_table_get_index(tx->response_headers, i, NULL);
    part("name", header->name);
    part("value", header->value);
  }
  part("body", body);
}

int main(int count, char** arguments) {
  (void)arguments;
  const int answers = count > 1;
  static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  htp_cfg_t* settings = htp_config_create();
  htp_config_set_server_personality(settings, HTP_SERVER_IDS);
  htp_config_set_parse_request_cookies(settings, 0);
  htp_config_set_plusspace_decode(settings, HTP_DECODER_URLENCODED, 0);
  htp_config_set_convert_lowercase(settings, HTP_DECODER_URL_PATH, 0);
  htp_config_set_field_limits(settings, 9000, 18000);
  htp_config_set_response_decompression(settings, 0);
  htp_config_register_response_body_data(settings, take_body);
  uint32_t bytes;
  while (fread(&bytes, sizeof(bytes), 1, stdin) == 1) {
    char* head = malloc(bytes + 1);
    if (head == NULL || fread(head, 1, bytes, stdin) != bytes) return 1;
    htp_connp_t* reader = htp_connp_create(settings);
    htp_connp_open(reader, "127.0.0.1", 1000, "127.0.0.1", 80, NULL);
    body = bstr_alloc(0);
    htp_connp_req_data(reader, NULL, answers ? request : head, answers ? strlen(request) : bytes);
    if (answers) htp_connp_res_data(reader, NULL, head, bytes);
    const htp_conn_t* connection = htp_connp_get_connection(reader);
    if (answers)
      tell_answer(htp_list_get(connection->transactions, 0));
    else if (htp_list_size(connection->transactions) == 1)
      tell(htp_list_get(connection->transactions, 0));
    bstr_free(body);
    printf("\n");
    htp_connp_destroy_all(reader);
    free(head);
  }
  return 0;
}
