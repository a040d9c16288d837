// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/extra.h"

#include <array>

#include "extras/templates/template_store.h"
#include "extras/templates/template_verbs.h"
#include "tools/ppcctl/program_options.h"

namespace ppc::ctl {
namespace {

constexpr Option kShared = {"--store", "STORE",
                            "dir:/PATH or etcd:http://HOST:PORT/PREFIX that nodes share, instead"};
constexpr Option kStoreKey = {"--store-key", "FILE", "key of the templates in it"};
constexpr std::array kStoreOnly = {kStore, kShared, kStoreKey};
constexpr std::array kVerifyOptions = {
    kStore, kShared, kStoreKey,
    Option{"--root", "MNT", "also look whether the files below MNT are the same"}};
constexpr std::array kSynthOptions = {
    kId,
    kParam,
    kParams,
    Option{"--tp", "N", "tensor-parallel workers (default 1)"},
    Option{"--loader", "KIND",
           "mmap (default), read, mmap-layers, read-layers, whole (default of GGUF), ranks", 0,
           "mmap read mmap-layers read-layers whole ranks"},
    Option{"--root", "MNT", "what the mount shows; default: the ppc mount that DIR lies on"},
    kStore,
    kShared,
    kStoreKey};

const std::array kTemplateVerbs = {
    cli::Verb{"template list", "Templates", "", "List the recorded templates.", kStoreOnly,
              TemplateList},
    cli::Verb{"template show", "Templates", "ID|FILE", "Show what a template contains.", kStoreOnly,
              TemplateShow},
    cli::Verb{"template dump", "Templates", "ID|FILE",
              "Print a whole template as JSON, every extent.", kStoreOnly, TemplateDump},
    cli::Verb{"template diff", "Templates", "FIRST SECOND",
              "Show which files and bytes only one of two templates has.\n"
              "FIRST and SECOND are IDs or files.  Exit status 0 if they are the same, 1 if they "
              "differ, 2 if that cannot be told.",
              kStoreOnly, TemplateDiff},
    cli::Verb{"template verify", "Templates", "ID|FILE",
              "Check a template, and with --root that its files have not changed.", kVerifyOptions,
              TemplateVerify},
    cli::Verb{
        "template merge", "Templates", "ID|FILE...",
        "Put the parts that several nodes recorded together.\n"
        "The result becomes the service's template.  With --store the ID of a service stands for\n"
        "all of its parts there.",
        kStoreOnly, TemplateMerge},
    cli::Verb{"template rerecord", "Templates", "ID",
              "Have the service's next start recorded.\n"
              "It follows the template it has meanwhile.",
              kStoreOnly, TemplateRerecord},
    cli::Verb{"template rm", "Templates", "ID",
              "Remove a template: the next start records it anew.", kStoreOnly, TemplateRm},
    cli::Verb{
        "template synth", "Templates", "DIR",
        "Make a template from the headers of the model in DIR, without a recording.\n"
        "Loaders: mmap and read take the slices of each of the --tp workers file by file (with\n"
        "-layers layer by layer), whole has every worker read all, ranks deals files out.",
        kSynthOptions, TemplateSynth},
};

constexpr std::array kTemplateFamilies = {
    cli::Family{"template", "Templates", "What policies have learnt of services."}};

}  // namespace

Extra TemplatesExtra() {
  return {.verbs = kTemplateVerbs,
          .families = kTemplateFamilies,
          .exit_status = "template diff: 0 the same, 1 different, 2 failed."};
}

}  // namespace ppc::ctl
