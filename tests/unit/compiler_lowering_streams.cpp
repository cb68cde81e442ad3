// SPDX-License-Identifier: MIT
//
// Rules lowered to signatures that are looked for in TCP streams, and in what these say of TLS and HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bitset>
#include <vector>

#include "tests/unit/lowered.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using test::in_streams;
using test::lowered;
using test::rule_of;

TEST(Lowering, SaysWhereSuricataLooksForContents) {
  using sig::Where;
  struct Case {
    std::string protocol, options;
    Where where;
  };
  for (const auto& [protocol, options, where] :
       std::vector<Case>{{"tcp", "content:\"a\";", Where::stream},
                         {"tcp", "content:\"a\"; content:!\"b\"; within:9; pcre:\"/c/\";", Where::stream},
                         {"tcp", "content:\"a\"; flow:established,to_server;", Where::stream},
                         {"tcp", "content:\"a\"; flow:only_stream; depth:5;", Where::stream},
                         {"tcp-stream", "content:\"a\";", Where::stream},
                         {"tcp-stream", "content:\"a\"; depth:5;", Where::stream},
                         {"tcp", "content:\"a\"; depth:5;", Where::both},
                         {"tcp", "content:\"a\"; content:\"b\"; offset:5;", Where::both},
                         {"tcp", "content:\"a\"; startswith;", Where::both},
                         {"tcp-pkt", "content:\"a\"; depth:5;", Where::packet},
                         {"tcp", "content:\"a\"; dsize:>5;", Where::packet},
                         {"tcp", "content:\"a\"; flags:PA;", Where::packet},
                         {"tcp", "content:\"a\"; flow:no_stream;", Where::packet},
                         {"tcp", "flags:S;", Where::packet},
                         {"tcp", "", Where::packet},
                         {"udp", "content:\"a\"; depth:5;", Where::packet},
                         {"dns", "content:\"a\"; dns.query; content:\"b\";", Where::packet}}) {
    const auto made = in_streams(options, protocol);
    ASSERT_TRUE(made.signature) << protocol << " " << options << ": " << made.not_yet.at(0).why;
    EXPECT_EQ(made.signature->where, where) << protocol << " " << options;
    EXPECT_EQ(sig::beyond_bounds(*made.signature), std::nullopt) << protocol << " " << options;
    EXPECT_FALSE(made.lacks_streams);
    // Of the same rules, where none is followed, those of packets are decided.
    const auto without = lowered(options, protocol);
    EXPECT_EQ(without.signature.has_value(), where == Where::packet) << protocol << " " << options;
    EXPECT_EQ(without.lacks_streams, where != Where::packet) << protocol << " " << options;
    if (where == Where::packet) {
      EXPECT_EQ(without.signature, made.signature);
    }
  }
}

TEST(Lowering, SaysWhyStreamsDoNotDecide) {
  struct Case {
    std::string protocol, options, said;
  };
  for (const auto& [protocol, options, said] : std::vector<Case>{
           {"ip", "content:\"a\";", "content: it is looked for in a stream, and is not for TCP alone"},
           {"udp", "content:\"a\"; flow:only_stream;",
            "flow: it is looked for in a stream, and is not for TCP alone"},
           {"tcp", "content:\"a\"; endswith;",
            "content: it is looked for in a stream, and asks for the end of a stream (endswith)"},
           {"tcp", "content:\"a\"; isdataat:!1,relative;",
            "content: it is looked for in a stream, and asks for the end of a stream (endswith)"},
           {"tcp", "content:\"a\"; isdataat:!5,relative;",
            "content: it is looked for in a stream, and asks where a stream ends (isdataat with !)"},
           {"tcp", "content:\"a\"; pcre:\"/b$/\";",
            "content: it is looked for in a stream, and asks for the end of a stream ($ in pcre)"},
           {"tcp", "content:!\"a\";",
            "content: it is looked for in a stream, and has no content that has to be there, by which a "
            "stream's rules are found"},
           {"tcp", "pcre:\"/a/\";",
            "content: it is looked for in a stream, and has no content that has to be there, by which a "
            "stream's rules are found"},
           {"tcp-stream", "flags:S;",
            "tcp-stream: it is looked for in a stream, and asks for what packets have, and streams have not"},
           {"tcp", "content:\"a\"; dsize:5; flow:only_stream;",
            "flow: it is looked for in a stream, and asks for what packets have, and streams have not"},
           {"tcp", "content:\"a\"; pcre:\"/(b)\\1/\";",
            "pcre: no device decides its expression, and a stream is on devices alone"}}) {
    const auto made = in_streams(options, protocol);
    ASSERT_EQ(made.not_yet.size(), 1u) << protocol << " " << options;
    EXPECT_EQ(made.not_yet[0].keyword + ": " + made.not_yet[0].why, said);
    // It does not matter whether some are followed.
    const auto without = lowered(options, protocol);
    EXPECT_EQ(without.not_yet.at(0), made.not_yet[0]) << protocol << " " << options;
    EXPECT_FALSE(without.lacks_streams) << protocol << " " << options;
  }
  EXPECT_EQ(lowered("content:\"a\";", "tcp").not_yet.at(0).why,
            "it is looked for in a stream: \"streams\" of the stage says how many connections are followed");
  // What an application says stands in the way by itself.
  EXPECT_EQ(in_streams("content:\"a\"; smb.share; content:\"b\";", "smb").not_yet.size(), 2u);
  EXPECT_EQ(lowered("content:\"a\"; smb.share; content:\"b\";", "smb").not_yet.size(), 3u);
}

TEST(Lowering, RequestsAreStreams) {
  using sig::HttpPart;
  const auto of = [](const std::string& options, const std::string& protocol = "http") {
    return in_streams(options, protocol);
  };
  for (const char* protocol : {"http", "http1", "tcp"}) {
    const auto made =
        of("flow:established,to_server; http.method; content:\"GET\"; http.uri; content:\"/evil\"; nocase;",
           protocol);
    ASSERT_TRUE(made.signature) << protocol << ": " << made.not_yet.at(0).why;
    const sig::Signature& one = *made.signature;
    EXPECT_EQ(one.where, sig::Where::stream);
    EXPECT_EQ(one.header.protocols, std::bitset<256>().set(6));
    EXPECT_TRUE(one.payload.empty());
    EXPECT_FALSE(made.of_connections);
    ASSERT_EQ(one.http.value().parts.size(), 2u);
    EXPECT_EQ(one.http->parts[0].part, HttpPart::method);
    EXPECT_EQ(one.http->parts[1].part, HttpPart::uri);
    EXPECT_EQ(one.fast_pattern.value().buffer, 2u);
    EXPECT_EQ(sig::found_by(one)->bytes, "/evil");
  }
  const auto parts = [&](const std::string& options) { return of(options).signature.value().http->parts; };
  EXPECT_TRUE(parts("http.host; dotprefix; content:\".bad.example\"; endswith; bsize:<40;").at(0).dot_prefix);
  // A URI's length is its own, or that of the one that came.
  EXPECT_EQ(parts("uricontent:\"/a\"; urilen:5<>20;").at(0).sizes,
            (std::vector<sig::SizeIs>{{{6, 19}, false}}));
  const auto raw = parts("http.uri; content:\"/a\"; urilen:5,raw; http.method; content:\"POST\";");
  ASSERT_EQ(raw.size(), 3u);
  EXPECT_EQ(raw[1].part, HttpPart::raw_uri);
  EXPECT_EQ(raw[1].sizes, (std::vector<sig::SizeIs>{{{5, 5}, false}}));
  EXPECT_TRUE(raw[0].sizes.empty());
  // What answers have, too, is a request's where it is said, or where something else is.
  EXPECT_EQ(parts("flow:to_server; http.header; content:\"a\";").at(0).part, HttpPart::header);
  EXPECT_EQ(parts("http.cookie; content:\"a\"; http.host; content:\"b\";").size(), 2u);
  EXPECT_EQ(sig::found_by(of("http.uri; content:!\"good\";").signature.value()), nullptr);
  EXPECT_TRUE(lowered("http.uri; content:\"a\";", "http").lacks_streams);
  EXPECT_EQ(of("http.uri; content:\"a\"; pcre:\"/(b)\\1/\";").not_yet.at(0).keyword, "pcre");
  EXPECT_EQ(of("content:\"b\"; http.uri; content:\"a\";").not_yet.at(0).why,
            "it is looked for in a stream, and asks for the stream's contents beside those of HTTP");
  // A policy may leave them out.
  const auto without = lower(rule_of("alert http any any -> any any (http.uri; content:\"a\"; sid:1;)"),
                             Streams::without_http);
  EXPECT_FALSE(without.lacks_streams);
  EXPECT_EQ(without.not_yet.at(0).why, "it is about HTTP: \"http\" of \"inspect\" says whether that is read");
}

TEST(Lowering, AnswersAreStreams) {
  using sig::HttpPart;
  const auto of = [](const std::string& options, const std::string& protocol = "http") {
    return in_streams(options, protocol);
  };
  const auto parts = [&](const std::string& options) { return of(options).signature.value().http->parts; };
  const auto both =
      of("flow:established,to_client; http.stat_code; content:\"200\"; file.data; content:\"evil\";");
  ASSERT_TRUE(both.signature) << both.not_yet.at(0).why;
  EXPECT_EQ(both.signature->where, sig::Where::stream);
  ASSERT_EQ(both.signature->http.value().parts.size(), 2u);
  EXPECT_EQ(both.signature->http->parts[0].part, HttpPart::stat_code);
  EXPECT_EQ(both.signature->http->parts[1].part, HttpPart::response_body);
  EXPECT_EQ(sig::body_of(*both.signature), &both.signature->http->parts[1]);
  // What requests have, too, is an answer's where it is said, or where something else is.
  EXPECT_EQ(parts("flow:to_client; http.header; content:\"a\";").at(0).part, HttpPart::answer_header);
  EXPECT_EQ(parts("http.cookie; content:\"a\"; http.server; content:\"b\";").at(0).part,
            HttpPart::set_cookie);
  EXPECT_EQ(parts("flow:to_client; content:\"a\"; http_server_body;").at(0).part, HttpPart::response_body);
  EXPECT_EQ(parts("http.location; content:\"a\";").at(0).part, HttpPart::location);
  const auto why = [&](const std::string& options, const std::string& protocol = "http") {
    const auto made = of(options, protocol);
    return made.signature ? "it is decided" : made.not_yet.at(0).why;
  };
  EXPECT_EQ(why("http.header; content:\"a\";"),
            "requests and answers have it: flow:to_server or flow:to_client has to say which is meant");
  EXPECT_EQ(why("http.stat_code; content:\"200\"; file.data; content:\"a\";"), "it is decided");
  // Which way a file goes need not be said: that half is decided which answers bring.
  EXPECT_TRUE(of("file.data; content:\"a\";").uploads_too);
  EXPECT_EQ(parts("file.data; content:\"a\";").at(0).part, HttpPart::response_body);
  EXPECT_FALSE(of("flow:to_client; file.data; content:\"a\";").uploads_too);
  EXPECT_FALSE(of("http.stat_code; content:\"200\"; file.data; content:\"a\";").uploads_too);
  EXPECT_EQ(why("flow:to_server; file.data; content:\"a\";"),
            "what clients send is not taken apart into files");
  // Files are of other protocols, too.
  EXPECT_EQ(why("flow:to_client; file.data; content:\"a\";", "tcp"), "it is about what an application says");
  // A policy may leave them out.
  const auto without =
      lower(rule_of("alert http any any -> any any (flow:to_client; file.data; content:\"a\"; sid:1;)"),
            Streams::with_requests);
  EXPECT_EQ(without.not_yet.at(0).why,
            "it is about answers by HTTP: \"answers\" of \"inspect\" says whether they are read");
}

TEST(Lowering, ServersNamesAreStreams) {
  const auto of = [](const std::string& options, const std::string& protocol = "tls") {
    return in_streams(options, protocol);
  };
  for (const char* protocol : {"tls", "tcp", "ip"}) {
    const auto made =
        of("flow:established,to_server; tls.sni; content:\"bad.example\"; endswith; nocase;", protocol);
    ASSERT_TRUE(made.signature) << protocol << ": " << made.not_yet.at(0).why;
    const sig::Signature& one = *made.signature;
    EXPECT_EQ(one.where, sig::Where::stream);
    EXPECT_EQ(one.header.protocols, std::bitset<256>().set(6));
    EXPECT_TRUE(one.payload.empty());
    EXPECT_FALSE(made.of_connections);
    ASSERT_EQ(one.hello.value().names.size(), 1u);
    EXPECT_EQ(one.fast_pattern.value().buffer, 1u);
    EXPECT_EQ(sig::found_by(one)->bytes, "bad.example");
  }
  const auto dotted = of("tls.sni; dotprefix; content:\".bad.example\"; endswith; bsize:<40;");
  EXPECT_TRUE(dotted.signature.value().hello->names.at(0).dot_prefix);
  EXPECT_EQ(dotted.signature->hello->names[0].sizes.size(), 1u);
  // Not found by anything.
  EXPECT_EQ(sig::found_by(of("tls.sni; content:!\"good\";").signature.value()), nullptr);
  EXPECT_TRUE(lowered("tls.sni; content:\"a\";", "tls").lacks_streams);
  EXPECT_EQ(of("tls.sni; content:\"a\"; pcre:\"/(b)\\1/\";").not_yet.at(0).keyword, "pcre");
  EXPECT_EQ(
      of("content:\"b\"; tls.sni; content:\"a\";").not_yet.at(0).why,
      "it is looked for in a stream, and asks for the stream's contents beside those of its ClientHello");
}

// A stream knows its sides, but not which of the connections of the same addresses and ports it is.
TEST(Lowering, AsksConntrackForWhatStreamsDoNotKnow) {
  const auto asks = [](const std::string& options) { return in_streams(options).of_connections; };
  EXPECT_FALSE(asks("content:\"a\"; flow:established,to_server;"));
  EXPECT_TRUE(asks("content:\"a\"; depth:5; flow:established,to_server;"));
  EXPECT_TRUE(asks("content:\"a\"; flow:established; flowbits:set,x;"));
  EXPECT_TRUE(asks("content:\"a\"; flowbits:set,x;"));
  EXPECT_FALSE(asks("content:\"a\"; xbits:set,x,track ip_src;"));
  const auto conditions = [](const std::string& options) {
    return in_streams(options).signature.value().conditions;
  };
  using Way = sig::ConnectionIs::Way;
  EXPECT_THAT(conditions("content:\"a\"; flow:established,to_server; flowbits:set,x;"),
              testing::ElementsAre(sig::Condition(sig::ConnectionIs{Way::to_server, true})));
  EXPECT_THAT(conditions("content:\"a\"; flowbits:set,x; flowbits:set,y;"),
              testing::ElementsAre(sig::Condition(sig::ConnectionIs{})));
}

// A host drops the packet with which a rule fires: what it brought comes again, and fires no more.
TEST(Lowering, LeavesNothingOfStreamsToHosts) {
  const auto of = [](const std::string& action, const std::string& options) {
    const auto made =
        lower(rule_of(action + " tcp any any -> any any (content:\"a\"; " + options + " sid:1;)"),
              Streams::with_answers);
    return made.signature ? "decided" : made.not_yet.at(0).keyword;
  };
  const std::string counted = "threshold:type both, track by_src, count 5, seconds 60;";
  EXPECT_EQ(of("drop", ""), "decided");
  EXPECT_EQ(of("alert", counted), "decided");
  EXPECT_EQ(of("drop", counted), "threshold");
  EXPECT_EQ(of("drop", counted + " depth:9;"), "threshold");
  EXPECT_EQ(of("drop", counted + " dsize:9;"), "decided");
  EXPECT_EQ(of("pass", "threshold:type limit, track by_src, count 5, seconds 60;"), "threshold");
  EXPECT_EQ(of("drop", "detection_filter:track by_src, count 5, seconds 60;"), "detection_filter");
  EXPECT_EQ(of("alert", "flowbits:isset,x;"), "decided");
  EXPECT_EQ(of("reject", "flowbits:isset,x;"), "flowbits");
  EXPECT_EQ(of("drop", "xbits:isset,x,track ip_src;"), "xbits");
  EXPECT_EQ(of("drop", "flowbits:set,x;"), "decided");
}

// Bounds of the devices, which real rules are far from.

}  // namespace
}  // namespace xdpgpu::rules
