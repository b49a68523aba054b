# Container images, with docker where a daemon answers and with buildah elsewhere. Each is built only when its inputs changed.
IMAGES_PYTHON ?= python3
SPARK_VERSION ?= 4.1.4
# Of a second session image, for tests of a change of Spark's version.
SPARK_NEXT_VERSION ?= 4.2.1

.PHONY: images image-session image-session-next image-operator image-objectstore image-kafka
images: tools ## Build the container images that changed, on the base that the cluster's tool makes or names
	@base=$$($(CLUSTER) base) && $(IMAGES_PYTHON) images/build.py --base "$$base" --spark-version $(SPARK_VERSION) session operator objectstore kafka

image-session image-operator image-objectstore image-kafka: image-%: tools
	@base=$$($(CLUSTER) base) && $(IMAGES_PYTHON) images/build.py --base "$$base" --spark-version $(SPARK_VERSION) $*

# Of the images that are pushed: the tag that the chart takes by default.
IMAGE_TAG ?= $(shell sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$$/\1/p' charts/spark-sql-operator/Chart.yaml)

.PHONY: push-images
push-images: ## Build the images of an installation and push them: REGISTRY=registry.example/team, which the builder is logged in to
	@test -n "$(REGISTRY)" || { echo "name the registry: make push-images REGISTRY=registry.example/team" >&2; exit 2; }
	@$(IMAGES_PYTHON) images/build.py $(if $(BASE),--base "$(BASE)") --spark-version $(SPARK_VERSION) --tag "$(IMAGE_TAG)" --push "$(REGISTRY)" session operator

image-session-next: tools
	@base=$$($(CLUSTER) base) && $(IMAGES_PYTHON) images/build.py --base "$$base" --spark-version $(SPARK_NEXT_VERSION) --tag dev-next session
