// SPDX-License-Identifier: MIT
//
// gpu/best_fit.hpp: which single byte is written for a character that has none, where a server narrows what
// it is asked for: Windows' "best fit" for code page 1252 (bestfit1252.txt of unicode.org), as far as libhtp
// 0.5.50 follows it, with whose answers for all characters it was compared.
#pragma once

#include <string_view>

#include "maps/types.h"

namespace xdpgpu::gpu {

// Where nothing fits.
inline constexpr char kNoFit = '?';

// Characters that follow each other, by the first one.
struct BestFits {
  u32 first;
  std::string_view bytes;
};
inline constexpr BestFits kBestFits[] = {
    {0x0100, "AaAaAaCcCcCcCcDd?dEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIi"},
    {0x0134, "JjKk?LlLlLl"},
    {0x0141, "LlNnNnNn"},
    {0x014c, "OoOoOo"},
    {0x0154, "RrRrRrSsSsSs"},
    {0x0162, "TtTtTtUuUuUuUuUuUuWwYy?Z?Zz"},
    {0x0180, "b"},
    {0x0197, "I"},
    {0x019a, "l"},
    {0x019f, "OOo"},
    {0x01ab, "t"},
    {0x01ae, "TUu"},
    {0x01b6, "z"},
    {0x01c0, "|"},
    {0x01c3, "!"},
    {0x01cd, "AaIiOoUuUuUuUuUu?Aa"},
    {0x01e4, "GgGgKkOoOo"},
    {0x01f0, "j"},
    {0x0261, "g"},
    {0x02b9, "'\"?'"},
    {0x02c4, "^"},
    {0x02c8, "'"},
    {0x02cb, "`?_"},
    {0x0300, "`?^~"},
    {0x030e, "\""},
    {0x0331, "__"},
    {0x037e, ";"},
    {0x0393, "G"},
    {0x0398, "T"},
    {0x03a3, "S"},
    {0x03a6, "F"},
    {0x03a9, "O"},
    {0x03b1, "a"},
    {0x03b4, "de"},
    {0x03c0, "p"},
    {0x03c3, "st?f"},
    {0x04bb, "h"},
    {0x0589, ":"},
    {0x066a, "%"},
    {0x2000, "       "},
    {0x2010, "--"},
    {0x2017, "="},
    {0x2032, "'"},
    {0x2035, "`"},
    {0x2044, "/"},
    {0x2074, "45678"},
    {0x207f, "n0123456789"},
    {0x20a7, "P"},
    {0x2102, "C"},
    {0x2107, "E"},
    {0x210a, "gHHHh?IILl?N"},
    {0x2118, "PPQRRR"},
    {0x2124, "Z"},
    {0x2128, "Z?K?BCeeEF?Mo"},
    {0x2212, "-"},
    {0x2215, "//*"},
    {0x221a, "v"},
    {0x221e, "8"},
    {0x2223, "|"},
    {0x2229, "n"},
    {0x2236, ":"},
    {0x223c, "~"},
    {0x2261, "="},
    {0x2264, "=="},
    {0x2303, "^"},
    {0x2320, "()"},
    {0x2329, "<>"},
    {0x2500, "-"},
    {0x250c, "+"},
    {0x2510, "+"},
    {0x2514, "+"},
    {0x2518, "+"},
    {0x251c, "+"},
    {0x252c, "-"},
    {0x2534, "-"},
    {0x253c, "+"},
    {0x2550, "-?++++++++++++"},
    {0x2564, "------+++"},
    {0x2584, "_"},
    {0x2758, "|"},
    {0x3000, " "},
    {0x3008, "<>"},
    {0x301a, "[]"},
    {0xff01,
     "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[/]^_`abcdefghijklmnopqrstuvwxyz{|}~"},
};

inline char best_fit(u32 code) {
  for (const auto& [first, bytes] : kBestFits)
    if (code >= first && code - first < bytes.size()) return bytes[code - first];
  return kNoFit;
}

}  // namespace xdpgpu::gpu
