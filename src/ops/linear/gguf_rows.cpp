// The GGUF block formats, as laid out in ggml-common.h of the GGUF specification's reference
// implementation.
#include <cstring>

#include "ops/half.h"
#include "ops/linear/coding.h"

namespace ops::linear {
namespace {

float ReadHalf(const std::uint8_t* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return HalfToFloat(bits);
}

std::size_t Size(int n) { return static_cast<std::size_t>(n); }

std::uint8_t U8(unsigned value) { return static_cast<std::uint8_t>(value); }

// 16 bytes: low nibbles are the first 16 codes, high nibbles the last 16.
void SplitNibbles(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = bytes[i] & 0xF;
    codes[i + 16] = bytes[i] >> 4;
  }
}

// The high bits of 32 codes, then their nibbles.
void DecodeQ5Block(const std::uint8_t* bits, std::uint8_t* codes) {
  std::uint32_t high = 0;
  std::memcpy(&high, bits, sizeof(high));
  SplitNibbles(bits + 4, codes);
  for (unsigned i = 0; i < 32; ++i) {
    codes[i] = U8(codes[i] | ((high >> i) & 1U) << 4);
  }
}

// The codes of IQ4_NL and IQ4_XS stand for these values (ggml-common.h, kvalues_iq4nl), here with
// the zero point 128.
constexpr std::uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                        129, 141, 153, 166, 181, 197, 217, 241};

void DecodeIq4Block(const std::uint8_t* bytes, std::uint8_t* codes) {
  SplitNibbles(bytes, codes);
  for (int i = 0; i < 32; ++i) {
    codes[i] = kIq4Codes[codes[i]];
  }
}

void DecodeQ8Block(const std::uint8_t* block, std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] = U8(block[2 + i] ^ 0x80U);  // signed to unsigned with zero 128
  }
}

// An exponent, then as Q4_0.
void DecodeMxfp4(const std::uint8_t* block, int n_in, CodedRow& out) {
  for (int g = 0; g < n_in / 32; ++g, block += 17) {
    std::uint8_t* codes = out.codes.data() + 32 * static_cast<std::size_t>(g);
    out.scales[static_cast<std::size_t>(g)] = Fp4Scale(block[0]);
    SplitNibbles(block + 1, codes);
    for (int i = 0; i < 32; ++i) {
      codes[i] = kFp4Codes[codes[i]];
    }
  }
}

// Formats with one f16 scale (and bias) per 32 inputs.
void DecodeSmallBlocks(WeightFormat format, const std::uint8_t* block, int n_in, CodedRow& out) {
  for (int g = 0; g < n_in / 32; ++g) {
    const std::size_t group = static_cast<std::size_t>(g);
    std::uint8_t* codes = out.codes.data() + 32 * group;
    out.scales[group] = ReadHalf(block);
    switch (format) {
      case WeightFormat::kQ4_0:
        SplitNibbles(block + 2, codes);
        block += 18;
        break;
      case WeightFormat::kQ4_1:
        out.biases[group] = ReadHalf(block + 2);
        SplitNibbles(block + 4, codes);
        block += 20;
        break;
      case WeightFormat::kQ5_0:
        DecodeQ5Block(block + 2, codes);
        block += 22;
        break;
      case WeightFormat::kQ5_1:
        out.biases[group] = ReadHalf(block + 2);
        DecodeQ5Block(block + 4, codes);
        block += 24;
        break;
      case WeightFormat::kIQ4_NL:
        DecodeIq4Block(block + 2, codes);
        block += 18;
        break;
      default:
        DecodeQ8Block(block, codes);
        block += 34;
        break;
    }
  }
}

// The eight 6-bit scales and mins of a Q4_K or Q5_K block, out of 12 bytes.
void UnpackSixBits(const std::uint8_t* packed, std::int8_t* scales, std::int8_t* mins) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = static_cast<std::int8_t>(packed[j] & 63);
    mins[j] = static_cast<std::int8_t>(packed[j + 4] & 63);
    scales[j + 4] = static_cast<std::int8_t>((packed[j + 8] & 0xF) | ((packed[j] >> 6) << 4));
    mins[j + 4] = static_cast<std::int8_t>((packed[j + 8] >> 4) | ((packed[j + 4] >> 6) << 4));
  }
}

void DecodeQ4K5K(WeightFormat format, const std::uint8_t* block, int n_in, CodedRow& out) {
  const bool five = format == WeightFormat::kQ5_K;
  for (int b = 0; b < n_in / kSuperGroup; ++b) {
    const std::size_t super = static_cast<std::size_t>(b);
    out.super_scales[super] = ReadHalf(block);
    out.super_biases[super] = -ReadHalf(block + 2);
    UnpackSixBits(block + 4, out.sub_scales.data() + 8 * super, out.sub_biases.data() + 8 * super);
    const std::uint8_t* high = block + 16;
    const std::uint8_t* low = five ? block + 48 : block + 16;
    std::uint8_t* codes = out.codes.data() + 256 * super;
    for (unsigned i = 0; i < 128; ++i) {
      const unsigned chunk =
          i / 32;  // 64 inputs: low nibbles, then high nibbles of the same 32 bytes
      const unsigned l = i % 32;
      const unsigned bits = five ? static_cast<unsigned>(high[l]) >> (2 * chunk) : 0U;
      codes[64 * chunk + l] = U8((low[i] & 0xFU) | (bits & 1U) << 4);
      codes[64 * chunk + 32 + l] = U8((static_cast<unsigned>(low[i]) >> 4) | (bits & 2U) << 3);
    }
    block += five ? 176 : 144;
  }
}

void DecodeQ6K(const std::uint8_t* block, int n_in, CodedRow& out) {
  for (int b = 0; b < n_in / kSuperGroup; ++b) {
    const std::size_t super = static_cast<std::size_t>(b);
    std::uint8_t* codes = out.codes.data() + 256 * super;
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint8_t* low = block + 64 * half;
      const std::uint8_t* high = block + 128 + 32 * half;
      for (unsigned i = 0; i < 128;
           ++i) {  // 32 inputs each: two rows of low nibbles, two of high ones
        const unsigned quarter = i / 32;
        const unsigned l = i % 32;
        const unsigned nibbles = low[l + 32 * (quarter % 2)];
        const unsigned four = quarter < 2 ? nibbles & 0xFU : nibbles >> 4;
        codes[128 * half + i] =
            U8(four | ((static_cast<unsigned>(high[l]) >> (2 * quarter)) & 3U) << 4);
      }
    }
    std::memcpy(out.sub_scales.data() + 16 * super, block + 192, 16);
    out.super_scales[super] = ReadHalf(block + 208);
    block += 210;
  }
}

// Input i of 256 of Q2_K and Q3_K: two bits of 64 bytes, 32 bytes and 4 shifts to each half.
unsigned TwoBits(const std::uint8_t* bytes, unsigned i) {
  return (static_cast<unsigned>(bytes[32 * (i / 128) + i % 32]) >> (2 * (i % 128 / 32))) & 3U;
}

void DecodeQ2K(const std::uint8_t* block, int n_in, CodedRow& out) {
  for (std::size_t super = 0; super < Size(n_in / kSuperGroup); ++super, block += 84) {
    for (std::size_t g = 0; g < 16; ++g) {
      out.sub_scales[16 * super + g] = static_cast<std::int8_t>(block[g] & 0xF);
      out.sub_biases[16 * super + g] = static_cast<std::int8_t>(block[g] >> 4);
    }
    for (unsigned i = 0; i < 256; ++i) {
      out.codes[256 * super + i] = U8(TwoBits(block + 16, i));
    }
    out.super_scales[super] = ReadHalf(block + 80);
    out.super_biases[super] = -ReadHalf(block + 82);
  }
}

void DecodeQ3K(const std::uint8_t* block, int n_in, CodedRow& out) {
  for (std::size_t super = 0; super < Size(n_in / kSuperGroup); ++super, block += 110) {
    const std::uint8_t* scales = block + 96;  // 16 of 6 bits: nibbles of 8 bytes, then 2 bits of 4
    for (unsigned g = 0; g < 16; ++g) {
      const unsigned low = (static_cast<unsigned>(scales[g % 8]) >> (4 * (g / 8))) & 0xFU;
      const unsigned high = (static_cast<unsigned>(scales[8 + g % 4]) >> (2 * (g / 4))) & 3U;
      out.sub_scales[16 * super + g] =
          static_cast<std::int8_t>(static_cast<int>(low | high << 4) - 32);
    }
    for (unsigned i = 0; i < 256; ++i) {
      const unsigned third = (static_cast<unsigned>(block[i % 32]) >> (i / 32)) & 1U;
      out.codes[256 * super + i] = U8(TwoBits(block + 32, i) | third << 2);
    }
    out.super_scales[super] = ReadHalf(block + 108);
  }
}

void DecodeIq4Xs(const std::uint8_t* block, int n_in, CodedRow& out) {
  for (std::size_t super = 0; super < Size(n_in / kSuperGroup); ++super, block += 136) {
    out.super_scales[super] = ReadHalf(block);
    const unsigned high = block[2] | static_cast<unsigned>(block[3]) << 8;
    for (unsigned g = 0; g < 8; ++g) {
      const unsigned low = (static_cast<unsigned>(block[4 + g / 2]) >> (4 * (g % 2))) & 0xFU;
      const unsigned scale = low | ((high >> (2 * g)) & 3U) << 4;
      out.sub_scales[8 * super + g] = static_cast<std::int8_t>(static_cast<int>(scale) - 32);
      DecodeIq4Block(block + 8 + 16 * g, out.codes.data() + 256 * super + 32 * g);
    }
  }
}

// float32 products of 11 and at most 8 bits: exact.
void MultiplyOutSuperScales(CodedRow& out) {
  const std::size_t per_super = out.sub_scales.size() / out.super_scales.size();
  for (std::size_t g = 0; g < out.scales.size(); ++g) {
    out.scales[g] = out.super_scales[g / per_super] * static_cast<float>(out.sub_scales[g]);
  }
  for (std::size_t g = 0; g < out.biases.size(); ++g) {
    out.biases[g] = out.super_biases[g / per_super] * static_cast<float>(out.sub_biases[g]);
  }
}

}  // namespace

void DecodeGgufRow(WeightFormat format, const std::byte* stored, int n_in, CodedRow& out) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(stored);
  switch (format) {
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      DecodeQ4K5K(format, block, n_in, out);
      MultiplyOutSuperScales(out);
      break;
    case WeightFormat::kQ6_K:
      DecodeQ6K(block, n_in, out);
      MultiplyOutSuperScales(out);
      break;
    case WeightFormat::kQ2_K:
      DecodeQ2K(block, n_in, out);
      MultiplyOutSuperScales(out);
      break;
    case WeightFormat::kQ3_K:
      DecodeQ3K(block, n_in, out);
      MultiplyOutSuperScales(out);
      break;
    case WeightFormat::kIQ4_XS:
      DecodeIq4Xs(block, n_in, out);
      MultiplyOutSuperScales(out);
      break;
    case WeightFormat::kMxfp4:
      DecodeMxfp4(block, n_in, out);
      break;
    default:
      DecodeSmallBlocks(format, block, n_in, out);
      break;
  }
}

}  // namespace ops::linear
