scaling "web" {
  enabled = true
  min     = 9
  max     = 5

  policy {
    cooldown = "5 minutes"

    check "cpu" {
      query = "avg_cpu"

      strategy "target-value" {
        target       = 70
        max_scale_upp = 2
      }
    }

    target "nomad-target" {
      Job   = "web"
      Group = "api"
    }
  }
}
