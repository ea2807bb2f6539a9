#include "compiler/planwriter/PlanWriter.h"

#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/plan/Seal.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {

Status writePlan(const proto::Plan &plan, const std::string &path) {
  // Maps (a node's attributes) in the order of their keys: the same plan is the
  // same file.
  std::string bytes;
  bool written = false;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    written = plan.SerializeToCodedStream(&coded);
  }
  if (!written)
    return Status::internal("the plan cannot be serialised (over 2 GiB?)");
  diffrun::sealPlan(bytes);
  return diffrun::writeFileAtomically(path, bytes);
}

} // namespace diffc
