# A Rails application around the recipe: one controller and one route.
require "action_controller/railtie"
require "set"

$stdout.sync = true

class HooksApp < Rails::Application
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = false
  config.secret_key_base = "for-trying-only" * 4
  config.logger = Logger.new(File::NULL)
  config.hosts.clear
end

HooksApp.initialize!
load File.join(ENV.fetch("CLIENTS_RECIPES"), "hooks_controller.rb")
HooksApp.routes.draw { post "/hooks", to: "hooks#receive" }
run HooksApp
