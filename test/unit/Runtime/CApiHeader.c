/* The interface is C: this file is compiled as such. */
#include "forebay/runtime.h"

fb_session_options forebay_test_options(fb_feed_fn feed, void *user) {
  fb_session_options options = {0};
  options.size = sizeof options;
  options.threads = 2;
  options.lr_schedule = "linear:total=10";
  options.feed = feed;
  options.feed_user = user;
  return options;
}
