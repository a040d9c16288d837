// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/manifest.h"

#include <cerrno>

#include "daemon/base/digests.h"
#include "extras/artifact/tests/fixture.h"

namespace ppc::artifact {
namespace {

constexpr const char* kSecret = "a secret of this test";

Manifest Sample() {
  Manifest manifest;
  manifest.service_id = "svc1";
  manifest.key = {{"gpu", "NVIDIA H200"}, {"odd", "a \"b\"\n"}};
  manifest.captured_ns = 1'700'000'000'123'456'789;
  manifest.roots = {{"triton", "/t"}, {"vllm", "/v"}};
  const std::string digest = Sha256Hex("x");
  manifest.entries = {
      {Kind::kDirectory, 0, "ab", 0755, -5, 0, "", Form::kRaw, ""},
      {Kind::kFile, 0, "ab/a b%\n\xff", 0644, 7, 12, digest, Form::kZstd, ""},
      {Kind::kLink, 0, "ab/l", 0777, 7, 0, "", Form::kRaw, "../c d"},
      {Kind::kFile, 1, "ab", 0600, 7, 0, digest, Form::kRaw, ""},
  };
  return manifest;
}

Result<Manifest> Again(const Manifest& manifest) {
  return Decode(Encode(manifest, kSecret), kSecret);
}

TEST(Manifest, ComesBackAsItWas) {
  const Manifest before = Sample();
  const Manifest after = Value(Again(before));
  EXPECT_EQ(after.service_id, before.service_id);
  EXPECT_EQ(after.key, before.key);
  EXPECT_EQ(after.captured_ns, before.captured_ns);
  EXPECT_EQ(after.roots[1].name, "vllm");
  EXPECT_EQ(after.entries, before.entries);
}

TEST(Manifest, IsRefusedWhateverByteIsChanged) {
  const std::string text = Encode(Sample(), kSecret);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const Result<Manifest> read = Decode(changed, kSecret);
    ASSERT_FALSE(read) << "byte " << i;
    EXPECT_EQ(read.error().code, EKEYREJECTED);
    ASSERT_FALSE(Decode(text.substr(0, i), kSecret)) << "cut at " << i;
  }
  ASSERT_FALSE(Decode(text + "\n", kSecret));
  ExpectError(Decode(text, "another secret of the test"), EKEYREJECTED, "forged");
}

TEST(Manifest, RefusesPathsThatLeaveTheirRootEvenIfSealed) {
  for (const char* path :
       {"..", "../x", "ab/../../x", "/etc/passwd", "", "a//b", "./a", "ab/", "."}) {
    Manifest manifest = Sample();
    manifest.entries[3].path = path;
    const Result<Manifest> read = Again(manifest);
    ASSERT_FALSE(read) << path;
    EXPECT_EQ(read.error().code, EBADMSG);
  }
  const auto with = [](const auto& change) {
    Manifest manifest = Sample();
    change(&manifest);
    return Again(manifest);
  };
  EXPECT_FALSE(with([](Manifest* m) { m->entries[3].path = "x/y"; })) << "x is not listed";
  EXPECT_FALSE(with([](Manifest* m) { m->entries[3] = m->entries[1]; })) << "twice";
  EXPECT_FALSE(with([](Manifest* m) { m->entries[3].root = 2; })) << "no such root";
  EXPECT_FALSE(with([](Manifest* m) { m->entries[3].mode = 04755; })) << "set-user-ID";
  EXPECT_FALSE(with([](Manifest* m) { m->entries[3].digest = "../../../../etc/passwd"; }));
  EXPECT_FALSE(with([](Manifest* m) { m->service_id = "../x"; }));
  EXPECT_FALSE(with([](Manifest* m) { m->roots[0].name = "../x"; }));
  const auto through_a_link = [](Manifest* m) {
    m->entries[1].path = "ab/l/x";
    std::swap(m->entries[1], m->entries[2]);
  };
  ExpectError(with(through_a_link), EBADMSG, "ab/l/x");
}

TEST(Manifest, LinksStayInside) {
  EXPECT_EQ(LinkProblem("a/b", "../c"), "");
  EXPECT_EQ(LinkProblem("a/b", "c/d"), "");
  EXPECT_EQ(LinkProblem("a/b/c", "../../d/./e"), "");
  EXPECT_NE(LinkProblem("a/b", "../../c"), "");
  EXPECT_NE(LinkProblem("a", ".."), "");
  EXPECT_NE(LinkProblem("a", "/etc"), "");
  EXPECT_NE(LinkProblem("a", ""), "");
  // b may be a link to anywhere in the root, so its parent is unknown.
  EXPECT_NE(LinkProblem("a/b", "c/../d"), "");
  EXPECT_NE(LinkProblem("x", "a/b/c/d/../../.."), "");
}

TEST(Manifest, OfAnotherVersionIsNotGuessedAt) {
  std::string text = Encode(Sample(), kSecret);
  text = text.substr(0, text.rfind("hmac "));
  const size_t at = text.find("\"version\":1");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "\"version\":2");
  text += "hmac " + HmacSha256Hex(kSecret, text) + "\n";
  ExpectError(Decode(text, kSecret), EBADMSG, "another version");
}

}  // namespace
}  // namespace ppc::artifact
