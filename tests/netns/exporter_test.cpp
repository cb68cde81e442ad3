// SPDX-License-Identifier: MIT
//
// `xdpgpu metrics --listen`: what it serves beside a real attach, to whom, and what it could do if somebody
// took it over.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBounce = R"({"stage": "l2fwd"})";

class Exporter : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    folder_ = fs::temp_directory_path() / fmt::format("xdpgpu-exporter-{}", getpid());
    fs::create_directory(folder_);
    fs::permissions(folder_, fs::perms::owner_all | fs::perms::others_exec);
  }
  void TearDown() override {
    prometheus_.reset();
    exporter_.reset();
    fs::remove_all(folder_);
    OnTheWire::TearDown();
  }

  void start(std::vector<std::string> options = {"--listen", "127.0.0.1:0"}) {
    std::vector<std::string> argv{product_path(), "metrics", "-o", "json"};
    argv.insert(argv.end(), options.begin(), options.end());
    exporter_ = std::make_unique<Process>(*host_, argv);
    ASSERT_TRUE(exporter_->wait_for([](const std::string& out) { return out.ends_with("}\n"); }, 10s))
        << exporter_->out() << exporter_->err();
    const std::string place = Json::parse(exporter_->out()).at("listening").at(0);
    if (!place.starts_with("unix:"))
      port_ = static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1)));
  }

  Fd connected() const {
    return host_->run([&] {
      Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port_);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
        throw Error("cannot connect");
      return fd;
    });
  }
  static void say(const Fd& fd, const std::string& text) {
    if (send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) throw Error("cannot send");
  }
  static std::string all_of(const Fd& fd) {
    const timeval patience{10, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::string text;
    char part[4096];
    for (ssize_t bytes; (bytes = recv(fd.get(), part, sizeof(part), 0)) > 0;)
      text.append(part, static_cast<std::size_t>(bytes));
    return text;
  }
  // The whole reply.
  std::string ask(const std::string& first_line, const std::string& more = "Host: localhost\r\n",
                  const char* version = "HTTP/1.1") const {
    const Fd fd = connected();
    say(fd, fmt::format("{} {}\r\nConnection: close\r\n{}\r\n", first_line, version, more));
    return all_of(fd);
  }
  static std::string body(const std::string& reply) { return reply.substr(reply.find("\r\n\r\n") + 4); }
  static std::string status(const std::string& reply) { return reply.substr(9, 3); }
  std::string metrics() const { return body(ask("GET /metrics")); }
  // Of the one line with this series.
  static std::string value(const std::string& text, const std::string& series) {
    const auto at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "none";
    const auto begin = at + series.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  pid_t serving() const {
    const auto all = but_for_the_compiler(exporter_->pid());
    if (all.size() != 1) throw Error(fmt::format("{} processes serve", all.size()));
    return all.front();
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path(name)) << text;
    chmod(path(name).c_str(), mode);
  }

  // What its API answers; discarded: nothing that is JSON.
  Json prometheus_says(const std::string& target) {
    const std::uint16_t mine = std::exchange(port_, 9090);
    Json reply(Json::value_t::discarded);
    try {
      // Not in chunks.
      reply = Json::parse(body(ask("GET " + target, "Host: localhost\r\n", "HTTP/1.0")), nullptr, false);
    } catch (const std::exception&) {  // it does not listen yet
    }
    port_ = mine;
    return reply;
  }
  // A family that has a series whatever the policy is.
  static bool of_every_attach(const std::string& family) {
    return family.find("_log_") == std::string::npos && family.find("_table_") == std::string::npos;
  }
  // One of its programs; empty: it is not there.
  static std::string prometheus(const char* program) {
    const char* const said = getenv("XDPGPU_PROMETHEUS");
    const std::string path = fmt::format("{}/{}", said && *said ? said : "/usr/bin", program);
    return access(path.c_str(), X_OK) == 0 ? path : "";
  }

  fs::path folder_;
  std::unique_ptr<Process> exporter_, prometheus_;
  std::uint16_t port_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Netns, Exporter, testing::Values(Config{false, 2}), config_name);

TEST_P(Exporter, SaysWhatTheMapsSay) {
  attach_both(inspect_udp(7000, kBounce));
  start();
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 16, 20);
  Sender(left_port()).send_paced(frames, 20000);
  ASSERT_EQ(left.take(frames.size(), 5s, udp_to(7000)).size(), frames.size());
  expect_conserved(attached_->pins());
  // What was asked for within the last moments is told again.
  std::this_thread::sleep_for(400ms);
  const std::string text = metrics();
  const std::string first = attached_->ifname(0), second = attached_->ifname(1);
  EXPECT_EQ(value(text, fmt::format("xdpgpu_up{{attach=\"{}\"}}", first)), "none")
      << "another namespace's has a label that says so";
  const std::string netns = fmt::format("netns=\"netns-{}-{}\"", host_->inode(), host_->cookie());
  EXPECT_EQ(value(text, fmt::format("xdpgpu_up{{attach=\"{}\",{}}}", first, netns)), "1");
  EXPECT_EQ(text.find("attach=\"" + second), std::string::npos) << "one process, told once";
  std::uint64_t transmitted = 0, timed = 0;
  for (unsigned queue = 0; queue < queues(); ++queue) {
    const std::string of = fmt::format("interface=\"{}\",{},queue=\"{}\"", first, netns, queue);
    transmitted += std::stoull(
        value(text, "xdpgpu_worker_packets_total{" + of + ",outcome=\"tx\",reason=\"transmitted\"}"));
    timed += std::stoull(value(text, "xdpgpu_latency_seconds_count{" + of + "}"));
  }
  EXPECT_EQ(transmitted, frames.size());
  EXPECT_EQ(timed, frames.size());
  EXPECT_EQ(
      value(text,
            fmt::format(
                "xdpgpu_kernel_packets_total{{interface=\"{}\",{},outcome=\"inspect\",reason=\"inspected\"}}",
                first, netns)),
      fmt::format("{}", frames.size()));
  const Json status = Json::parse(body(ask("GET /status.json")));
  ASSERT_EQ(status.size(), 1U);
  EXPECT_EQ(status.at(0).at("status").at("pid"), attached_->data_plane());

  // Both formats hold for Prometheus' own checker, where it is installed.
  if (const std::string promtool = prometheus("promtool"); !promtool.empty()) {
    write("metrics.txt", text);
    const Outcome checked =
        run_program(*host_, {"/bin/sh", "-c", promtool + " check metrics < " + path("metrics.txt")});
    EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
  }
  const std::string open =
      ask("GET /metrics", "Host: [::1]\r\nAccept: application/openmetrics-text; version=1.0.0\r\n");
  EXPECT_NE(open.find("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
            std::string::npos);
  EXPECT_TRUE(open.ends_with("# EOF\n"));

  attached_->kill_outright();
  EXPECT_TRUE(eventually(
      [&] { return value(metrics(), fmt::format("xdpgpu_up{{attach=\"{}\",{}}}", first, netns)) == "0"; },
      10s))
      << metrics();
}

TEST_P(Exporter, OnceOnTheCommandLine) {
  attach(inspect_udp(7000, kBounce));
  const Outcome text = product(*host_, {"metrics"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("\nxdpgpu_up{attach=\""), std::string::npos) << text.out;
  const Outcome few = product(*host_, {"metrics", "--series", "1", "-o", "json"});
  EXPECT_EQ(few.status, 0) << few.err;
  EXPECT_EQ(Json::parse(few.out).at(0).at("attach"), attached_->ifname());
  // Who may not ask is told so, and gets no numbers.
  const Outcome stranger = run_program(*host_, {product_path(), "metrics"}, 20s, {.uid = 65534});
  EXPECT_EQ(stranger.status, 1) << stranger.out;
  EXPECT_EQ(stranger.out.find("xdpgpu_up{"), std::string::npos) << stranger.out;
  EXPECT_NE(stranger.err.find("xdpgpu: "), std::string::npos);
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"metrics", "--without-password"},
                                             {"metrics", "--listen", "0.0.0.0:0"},
                                             {"metrics", "--listen", "[::]:0"},
                                             {"metrics", "--listen", "somewhere"},
                                             {"metrics", "--series", "0"}}) {
    const Outcome refused = product(*host_, wrong);
    EXPECT_EQ(refused.status, 2) << refused.out << refused.err;
  }
}

TEST_P(Exporter, ServesWhatItHasAndNothingElse) {
  start();
  const std::string page = ask("GET /");
  EXPECT_EQ(status(page), "200") << page;
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'none'; script-src 'self'"), std::string::npos);
  EXPECT_NE(page.find("<title>xdpgpu</title>"), std::string::npos);
  EXPECT_EQ(status(ask("GET /page.js")), "200");
  EXPECT_EQ(status(ask("GET /page.css?x")), "200");
  EXPECT_EQ(status(ask("GET /../../etc/passwd")), "404");
  EXPECT_EQ(status(ask("GET /metrics/")), "404");
  EXPECT_EQ(status(ask("POST /metrics")), "405");
  EXPECT_EQ(status(ask("DELETE /")), "405");
  EXPECT_EQ(status(ask("GET http://evil.test/metrics")), "404");
  const std::string head = ask("HEAD /metrics");
  EXPECT_EQ(status(head), "200");
  EXPECT_TRUE(body(head).empty()) << head;
  // A page elsewhere whose name points here (DNS rebinding), or a request that names nobody.
  EXPECT_EQ(status(ask("GET /status.json", "Host: evil.test\r\n")), "421");
  EXPECT_EQ(status(ask("GET /status.json", "")), "421");
  EXPECT_EQ(status(ask("GET /metrics", "Host: 127.0.0.1:9478\r\n")), "200");
  EXPECT_EQ(status(ask("GET /metrics", "Host: localhost\r\nX: " + std::string(9000, 'x') + "\r\n")), "431");
  EXPECT_EQ(status(ask("GET /metrics", "Host: localhost\r\nContent-Length: 5\r\n")), "413");
  EXPECT_EQ(status(ask("GET /metrics", "Host: localhost\r\nTransfer-Encoding: chunked\r\n")), "413");
  const Fd fd = connected();
  say(fd, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 13));
  EXPECT_EQ(status(all_of(fd)), "400");
  // Several requests by one connection.
  const Fd kept = connected();
  say(kept,
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\nHost: "
      "localhost\r\nConnection: close\r\n\r\n");
  const std::string two = all_of(kept);
  EXPECT_NE(two.find("HTTP/1.1 200 OK", 15), std::string::npos) << two;
}

TEST_P(Exporter, WhoSaysNothingTakesAPlaceAndNoMore) {
  start();
  std::vector<Fd> idle;
  idle.reserve(32);
  for (int i = 0; i < 32; ++i) idle.push_back(connected());
  std::this_thread::sleep_for(200ms);
  const Fd one_more = connected();
  EXPECT_EQ(all_of(one_more), "");
  idle.clear();
  EXPECT_TRUE(
      eventually([&] { return ask("GET /metrics").find("xdpgpu_build_info") != std::string::npos; }, 10s));
}

TEST_P(Exporter, TheProcessThatServesCanDoNothingElse) {
  start();
  ASSERT_EQ(status(ask("GET /metrics")), "200");
  std::ifstream file(fmt::format("/proc/{}/status", serving()));
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(said.find("Seccomp:\t2\n"), std::string::npos) << said;
  EXPECT_NE(said.find("NoNewPrivs:\t1\n"), std::string::npos) << said;
  EXPECT_NE(said.find("CapEff:\t0000000000000000\n"), std::string::npos) << said;
  EXPECT_EQ(said.find("Uid:\t0\t"), std::string::npos) << said;
  // One that listens, one to the other process, and, for a moment, that of the request.
  const auto sockets = [&] {
    std::size_t count = 0;
    for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", serving())))
      count += fs::read_symlink(fd).string().starts_with("socket:");
    return count;
  };
  EXPECT_TRUE(eventually([&] { return sockets() == 2; })) << sockets();
  // Whoever ends it ends the other one, which says so.
  kill(serving(), SIGSYS);
  EXPECT_EQ(exporter_->wait(5s), 1);
  EXPECT_NE(exporter_->err().find("the process that serves metrics ended by signal 31"), std::string::npos)
      << exporter_->err();
}

TEST_P(Exporter, EndsWhenItIsTold) {
  start({"--listen", "127.0.0.1:0", "unix:" + path("metrics.sock")});
  struct stat there {};
  ASSERT_EQ(stat(path("metrics.sock").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0007, 0U) << "not for everybody";
  const auto taken = product(*host_, {"metrics", "--listen", "unix:" + path("metrics.sock")});
  EXPECT_EQ(taken.status, 1);
  EXPECT_NE(taken.err.find("somebody listens"), std::string::npos) << taken.err;
  const pid_t child = serving();
  exporter_->signal(SIGTERM);
  EXPECT_EQ(exporter_->wait(5s), 0);
  EXPECT_NE(kill(child, 0), 0);
  EXPECT_NE(access(path("metrics.sock").c_str(), F_OK), 0);
}

TEST_P(Exporter, AsksForAPasswordOverTLS) {
  const Outcome made =
      run_program(*host_, {"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                           "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-keyout",
                           path("a.key"), "-out", path("a.crt")});
  ASSERT_EQ(made.status, 0) << made.err;
  // "secret"
  write("web.json", R"({"tls": {"certificate": "a.crt", "key": "a.key"},
                        "users": {"prom": "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"}})");
  const auto refused = product(*host_, {"metrics", "--listen", "10.9.0.1:0"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("--web-config"), std::string::npos) << refused.err;
  start({"--listen", "10.9.0.1:0", "--web-config", path("web.json")});
  const auto get = [&](const std::string& user) {
    return run_program(*host_, {"/usr/bin/python3", "-c", R"(
import http.client, ssl, sys, base64
context = ssl.create_default_context(cafile=sys.argv[1])
context.check_hostname = False
connection = http.client.HTTPSConnection("10.9.0.1", int(sys.argv[2]), context=context, timeout=10)
headers = {"Authorization": "Basic " + base64.b64encode(sys.argv[3].encode()).decode()} if sys.argv[3] else {}
connection.request("GET", "/metrics", headers=headers)
reply = connection.getresponse()
print(reply.status, reply.getheader("WWW-Authenticate"), reply.read().decode()))",
                                path("a.crt"), std::to_string(port_), user});
  };
  const Outcome none = get(""), wrong = get("prom:wrong"), right = get("prom:secret");
  EXPECT_TRUE(none.out.starts_with("401 Basic realm=\"xdpgpu\"")) << none.out << none.err;
  EXPECT_TRUE(wrong.out.starts_with("401 ")) << wrong.out << wrong.err;
  EXPECT_TRUE(right.out.starts_with("200 ")) << right.out << right.err;
  EXPECT_NE(right.out.find("xdpgpu_build_info"), std::string::npos);
  EXPECT_EQ(wrong.out.find("xdpgpu_build_info"), std::string::npos);
  // What cannot be served is not said to be.
  write("b.key", "no key");
  write("wrong.json", R"({"tls": {"certificate": "a.crt", "key": "b.key"}})");
  const auto wrong_key =
      product(*host_, {"metrics", "--listen", "127.0.0.1:0", "--web-config", path("wrong.json")});
  EXPECT_EQ(wrong_key.status, 1);
  EXPECT_EQ(wrong_key.out, "");
  EXPECT_NE(wrong_key.err.find("metrics cannot be served: "), std::string::npos) << wrong_key.err;
  // Who speaks no TLS is told nothing.
  const Outcome plain = run_program(*host_, {"/usr/bin/python3", "-c", R"(
import socket, sys
s = socket.create_connection(("10.9.0.1", int(sys.argv[1])), timeout=10)
s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
print(s.recv(4096)))",
                                             std::to_string(port_)});
  EXPECT_EQ(plain.out.find("xdpgpu"), std::string::npos) << plain.out;
}

// In a real browser, whose user interface is left out: its script asks, and shows what it is told.
TEST_P(Exporter, ABrowserShowsIt) {
  const std::string browser = "/usr/bin/chromium";
  if (access(browser.c_str(), X_OK) != 0)
    GTEST_SKIP() << "Chromium is not installed (apt-get install chromium)";
  attach(inspect_udp(7000, kBounce));
  start();
  Sender(left_port()).send_paced(many_flows(7000, 4, 10), 20000);
  ASSERT_TRUE(eventually([&] { return attached_->pins().worker("transmitted") == 40; }));
  const Outcome page = run_program(
      *host_,
      {browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + path("browser"),
       "--virtual-time-budget=3000", "--dump-dom", fmt::format("http://127.0.0.1:{}/", port_)},
      60s, {.environment = {{"HOME", folder_.string()}}});
  EXPECT_NE(page.out.find("live, "), std::string::npos) << page.out << page.err;
  EXPECT_NE(page.out.find(attached_->ifname() + " inspected"), std::string::npos) << page.out;
  EXPECT_NE(page.out.find("<td class=\"number\">40</td>"), std::string::npos) << page.out;
}

// A real Prometheus: it scrapes, knows the rules, and has an answer to every query of the dashboard.
TEST_P(Exporter, PrometheusScrapesIt) {
  const std::string binary = prometheus("prometheus");
  if (binary.empty()) GTEST_SKIP() << "Prometheus is neither installed nor where $XDPGPU_PROMETHEUS says";
  attach(inspect_udp(7000, kBounce));
  start();
  const std::string rules = std::string(XDPGPU_SOURCE_DIR) + "/deploy/prometheus/xdpgpu.rules.yml";
  write("prometheus.yml",
        fmt::format(
            "global: {{scrape_interval: 500ms, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\n"
            "scrape_configs: [{{job_name: xdpgpu, static_configs: [{{targets: [\"127.0.0.1:{}\"]}}]}}]\n",
            rules, port_));
  prometheus_ = std::make_unique<Process>(
      *host_,
      std::vector<std::string>{binary, "--config.file=" + path("prometheus.yml"),
                               "--storage.tsdb.path=" + path("data"), "--web.listen-address=127.0.0.1:9090"});
  const auto query = [&](const std::string& expression) {
    std::string encoded;
    for (const char c : expression) encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return prometheus_says("/api/v1/query?query=" + encoded);
  };
  Sender(left_port()).send_paced(many_flows(7000, 4, 10), 20000);
  ASSERT_TRUE(eventually(
      [&] {
        const Json reply = query("xdpgpu_worker_packets_total{reason=\"transmitted\"} > 0");
        return reply.is_object() && reply.contains("data") && !reply.at("data").at("result").empty();
      },
      30s))
      << prometheus_->err();
  std::ifstream file(std::string(XDPGPU_SOURCE_DIR) + "/deploy/grafana/xdpgpu.json");
  const Json dashboard = Json::parse(file);
  std::size_t queries = 0;
  for (const Json& panel : dashboard.at("panels"))
    for (const Json& target : panel.at("targets")) {
      std::string expression = target.at("expr");
      expression = std::regex_replace(expression, std::regex("\\$__rate_interval"), "1m");
      expression = std::regex_replace(expression, std::regex("\\$instance"), ".*");
      const Json reply = query(expression);
      ASSERT_TRUE(reply.is_object()) << expression;
      EXPECT_EQ(reply.value("status", ""), "success") << expression << reply;
      // Each family that a query is about is there.
      static const std::regex kFamily("xdpgpu_[a-z_]+");
      for (auto at = std::sregex_iterator(expression.begin(), expression.end(), kFamily);
           at != std::sregex_iterator(); ++at)
        if (of_every_attach(at->str())) {
          EXPECT_FALSE(query(at->str()).at("data").at("result").empty()) << at->str();
        }
      ++queries;
    }
  EXPECT_GT(queries, 15U);
  const Json known = prometheus_says("/api/v1/rules");
  std::size_t alerts = 0;
  for (const Json& group : known.at("data").at("groups"))
    for (const Json& rule : group.at("rules")) {
      EXPECT_TRUE(rule.at("health") == "ok" || rule.at("health") == "unknown") << rule;
      ++alerts;
    }
  EXPECT_GT(alerts, 10U);
}

}  // namespace
}  // namespace xdpgpu::lab
