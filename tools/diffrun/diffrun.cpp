// diffrun: runs plans. Flags to library; no Python, no LLVM.
#include "tools/diffrun/Commands.h"

#include <csignal>
#include <new>

using namespace diffrun;

int main(int argc, char **argv) {
  // A file-size limit must come as an error of write(), not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app{"diffrun: trains and samples from compiled plans"};
  app.require_subcommand(1);
  std::vector<Action> actions = {addTrain(app),  addEval(app),  addSample(app),
                                 addVerify(app), addBench(app), addInfo(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Status status;
  try {
    for (const Action &action : actions)
      if (status.ok())
        status = action();
  } catch (const std::bad_alloc &) {
    status = Status::machine("not enough memory", "use a smaller batch or model");
  } catch (const std::exception &error) { // of a library: ours are values
    status = Status::internal(std::string("an exception nobody expected: ") + error.what());
  }
  report("diffrun", status);
  return exitCode(status);
}
