#include "ops/rope/rope_scaling.h"

#include <gtest/gtest.h>

namespace ops {
namespace {

// Expected values: the formulas of transformers 5.24 modeling_rope_utils.py, computed with numpy in
// float32.
void ExpectSpec(const RopeScaling& scaling, const std::vector<float>& inv_freq,
                float attention_factor) {
  const RopeSpec spec = MakeRopeSpec(scaling);
  ASSERT_EQ(spec.inv_freq.size(), inv_freq.size());
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    EXPECT_NEAR(spec.inv_freq[i] / inv_freq[i], 1.0F, 3e-6F) << i;
  }
  EXPECT_NEAR(spec.attention_factor, attention_factor, 1e-6F);
}

TEST(RopeScaling, DefaultIsThetaToThePowers) {
  ExpectSpec({.rotary_dim = 16, .theta = 10000.0},
             {1.0F, 0.316227764F, 0.100000001F, 0.0316227786F, 0.00999999978F, 0.00316227786F,
              0.00100000005F, 0.000316227786F},
             1.0F);
}

TEST(RopeScaling, LinearDividesAllFrequencies) {
  ExpectSpec({.kind = RopeScalingKind::kLinear, .rotary_dim = 16, .theta = 10000.0, .factor = 4.0},
             {0.25F, 0.079056941F, 0.0250000004F, 0.00790569466F, 0.00249999994F, 0.000790569466F,
              0.000250000012F, 7.90569466e-05F},
             1.0F);
}

TEST(RopeScaling, Llama3LeavesShortWavelengthsAndDividesLongOnes) {
  ExpectSpec({.kind = RopeScalingKind::kLlama3,
              .rotary_dim = 64,
              .theta = 500000.0,
              .factor = 32.0,
              .original_max_position = 8192.0,
              .low_freq_factor = 1.0,
              .high_freq_factor = 4.0},
             {1.0F,
              0.66360122F,
              0.440366626F,
              0.292227805F,
              0.193922758F,
              0.128687382F,
              0.0853971019F,
              0.0566696189F,
              0.0376060307F,
              0.0249554086F,
              0.0165604409F,
              0.0109895291F,
              0.00729266508F,
              0.00483942125F,
              0.00321144611F,
              0.00129054801F,
              0.000429556705F,
              9.70828623e-05F,
              1.94616387e-05F,
              1.29147684e-05F,
              8.57025589e-06F,
              5.68723181e-06F,
              3.77405445e-06F,
              2.50446692e-06F,
              1.66196764e-06F,
              1.10288363e-06F,
              7.31874934e-07F,
              4.85673127e-07F,
              3.22293289e-07F,
              2.1387423e-07F,
              1.41927202e-07F,
              9.4183072e-08F},
             1.0F);
}

TEST(RopeScaling, YarnInterpolatesWithARamp) {
  ExpectSpec({.kind = RopeScalingKind::kYarn,
              .rotary_dim = 64,
              .theta = 1000000.0,
              .factor = 4.0,
              .original_max_position = 32768.0},
             {1.0F,
              0.649381638F,
              0.421696514F,
              0.273841977F,
              0.177827939F,
              0.115478203F,
              0.0749894157F,
              0.0486967526F,
              0.0316227786F,
              0.0205352493F,
              0.0133352149F,
              0.00865964312F,
              0.00515479548F,
              0.0030431177F,
              0.00177853031F,
              0.00102661783F,
              0.000583333371F,
              0.000324690831F,
              0.000175706897F,
              9.12806499e-05F,
              4.44569851e-05F,
              2.88695519e-05F,
              1.87473561e-05F,
              1.21741887e-05F,
              7.90569356e-06F,
              5.13381246e-06F,
              3.33380399e-06F,
              2.16491071e-06F,
              1.40585337e-06F,
              9.12935377e-07F,
              5.92843435e-07F,
              3.84981632e-07F},
             1.13862944F);
}

TEST(RopeScaling, YarnTakesTheRampsEndsUnroundedAndMscale) {
  ExpectSpec({.kind = RopeScalingKind::kYarn,
              .rotary_dim = 32,
              .theta = 150000.0,
              .factor = 32.0,
              .original_max_position = 4096.0,
              .beta_fast = 24.0,
              .beta_slow = 2.0,
              .truncate = false,
              .mscale = 0.707,
              .mscale_all_dim = 1.0},
             {1.0F, 0.47478205F, 0.225418001F, 0.107024424F, 0.05081328F, 0.020149963F,
              0.00624051318F, 0.00138360308F, 8.0687154e-05F, 3.83088118e-05F, 1.8188337e-05F,
              8.63549576e-06F, 4.09997847e-06F, 1.94659629e-06F, 9.24208962e-07F, 4.38797855e-07F},
             0.924589296F);
}

TEST(RopeScaling, YarnTakesAGivenAttentionFactor) {
  ExpectSpec({.kind = RopeScalingKind::kYarn,
              .rotary_dim = 16,
              .theta = 10000.0,
              .factor = 8.0,
              .original_max_position = 2048.0,
              .attention_factor = 0.75},
             {1.0F, 0.316227764F, 0.100000001F, 0.0247052945F, 0.00562499976F, 0.00108703296F,
              0.000125000006F, 3.95284733e-05F},
             0.75F);
}

}  // namespace
}  // namespace ops
